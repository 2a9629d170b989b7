// control_bench's rival: the same small message there and back through CAF's network layer with its OpenSSL module, the
// way control would have gone (docs/decisions/0001-control-on-the-links.md). Two actor systems in this process, over
// TCP on loopback, with certificates on both sides; the 64 MiB frames flow on Troupe's links in both programs.
//
// First it is seen what becomes of a CAF process when a peer with a valid certificate sends the 32 bytes of a handshake
// that promises no payload; the outcome is in the report's context.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/openssl/all.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <troupe/bench/transport/bulk.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/clock.hpp>

namespace troupe::transport {
namespace {

constexpr std::int64_t kRounds = 1000;
constexpr std::int64_t kWarmUp = 200;
constexpr int kTries = 5;
constexpr caf::duration kDeadline{caf::time_unit::seconds, 10};

/// A run's certificates as the files that CAF wants.
class Files {
 public:
  Files() : folder_(std::filesystem::temp_directory_path() / fmt::format("caf_control_bench_{}", ::getpid())) {
    std::filesystem::create_directory(folder_);
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    write("authority", nodes_.left_credentials.authority);
    for (const auto& [name, credentials] :
         {std::pair{"left", nodes_.left_credentials}, std::pair{"right", nodes_.right_credentials}}) {
      write(fmt::format("{}.certificate", name), credentials.certificate);
      write(fmt::format("{}.key", name), credentials.key);
    }
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  const LoopbackNodes nodes_;
  const std::filesystem::path folder_;
};

struct Config : caf::actor_system_config {
  Config(const Files& files, const std::string& name) {
    load<caf::io::middleman>();
    load<caf::openssl::manager>();
    openssl_certificate = files.path(name + ".certificate");
    openssl_key = files.path(name + ".key");
    openssl_cafile = files.path("authority");
  }
};

caf::behavior echo(caf::event_based_actor*) {
  return {[](std::uint64_t number) { return number; }};
}

std::uint16_t serve(caf::actor_system& system) {
  const auto port = caf::openssl::publish(system.spawn(echo), 0, "127.0.0.1");
  TROUPE_CHECK(static_cast<bool>(port), "publish");
  return *port;
}

double p99_us(const Files& files) {
  Config right_config(files, "right"), left_config(files, "left");
  caf::actor_system right(right_config), left(left_config);
  const std::uint16_t port = serve(right);
  auto peer = caf::openssl::remote_actor<caf::actor>(left, "127.0.0.1", port);
  TROUPE_CHECK(static_cast<bool>(peer), "remote_actor");
  const SteadyClock clock;
  std::vector<Duration> trips;
  {
    caf::scoped_actor self(left);
    for (std::int64_t i = 0; i < kWarmUp + kRounds; ++i) {
      const Duration asked = clock.now();
      self->request(*peer, kDeadline, std::uint64_t{7})
          .receive(
              [&](std::uint64_t) {
                if (i >= kWarmUp) trips.push_back(clock.now() - asked);
              },
              [](const caf::error&) { TROUPE_CHECK(false, "no answer within 10 s"); });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    self->send_exit(*peer, caf::exit_reason::user_shutdown);
  }
  std::ranges::sort(trips);
  return seconds(trips[trips.size() * 99 / 100]) * 1e6;
}

/// How many of kTries processes do not survive a peer of the run that sends the 32 bytes.
int crashes(const Files& files) {
  int died = 0;
  for (int i = 0; i < kTries; ++i) {
    int pipe_ends[2];
    TROUPE_CHECK(::pipe(pipe_ends) == 0, "pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      Config config(files, "right");
      caf::actor_system system(config);
      const std::uint16_t port = serve(system);
      TROUPE_CHECK(::write(pipe_ends[1], &port, sizeof(port)) == sizeof(port), "write");
      std::this_thread::sleep_for(std::chrono::seconds(20));
      ::_exit(0);
    }
    std::uint16_t port = 0;
    TROUPE_CHECK(::read(pipe_ends[0], &port, sizeof(port)) == sizeof(port), "read");
    const std::string attack = fmt::format(
        "{{ printf '\\001'; head -c 31 /dev/zero; sleep 2; }} | timeout 5 openssl s_client -quiet -connect "
        "127.0.0.1:{} "
        "-cert {} -key {} -CAfile {} > /dev/null 2>&1",
        port, files.path("left.certificate"), files.path("left.key"), files.path("authority"));
    (void)!std::system(attack.c_str());
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      died += WIFSIGNALED(status) ? 1 : 0;
    } else {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
  }
  return died;
}

void report(benchmark::State& state, double value) {
  state.counters["value"] = value;
  state.SetLabel("us");
}

void control_idle_p99(benchmark::State& state) {
  const Files files;
  for (auto _ : state) report(state, p99_us(files));
}

void control_busy_p99(benchmark::State& state) {
  const Files files;
  for (auto _ : state) {
    const LoopbackNodes nodes;
    Bulk bulk(nodes);
    report(state, p99_us(files));
    state.counters["frames"] = static_cast<double>(bulk.frames());
  }
}

BENCHMARK(control_idle_p99)->Iterations(1);
BENCHMARK(control_busy_p99)->Iterations(1);

}  // namespace
}  // namespace troupe::transport

int main(int argc, char** argv) {
  using namespace troupe::transport;
  // Before this process has a thread: it forks.
  const int died = crashes(Files());
  benchmark::AddCustomContext("version", "0.17.6");
  benchmark::AddCustomContext("processes that 32 bytes of a peer of the run ended",
                              fmt::format("{} of {}", died, kTries));
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
