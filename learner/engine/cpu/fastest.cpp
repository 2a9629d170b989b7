#include <troupe/learner/engine/cpu/fastest.hpp>

#include <fmt/format.h>
#if defined(TROUPE_X86_KERNELS)
#include <cpuid.h>
#endif

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include <troupe/core/cache_folder.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#if defined(TROUPE_ONEDNN)
#include <troupe/learner/engine/cpu/detail/onednn.hpp>
#endif

namespace troupe::learner {
namespace {

constexpr double kSecondsOfAShape = 0.04, kSecondsOfARun = 1e-4;
constexpr double kAdvantage = 1.03;
constexpr int kRounds = 12;

/// Of this thread on a processor: another one that takes the processor meanwhile does not count.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A way that exists here.
struct Contender {
  std::size_t way = 0;
  std::function<void()> run;
  std::int64_t times = 1;  ///< runs between two looks at the clock
  double seconds = std::numeric_limits<double>::infinity();

  void take_time() {
    const double start = processor_seconds();
    for (std::int64_t i = 0; i < times; ++i) run();
    seconds = std::min(seconds, (processor_seconds() - start) / static_cast<double>(times));
  }
};

/// What times depend on: the processor, how far up its instruction sets we go, and who computes.
std::string about_processor() {
  std::string text = "processor";
#if defined(TROUPE_X86_KERNELS)
  std::array<unsigned, 12> brand{};
  unsigned a = 0, b = 0, c = 0, d = 0;
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    if (__get_cpuid(0x80000002U + leaf, &a, &b, &c, &d) == 0) break;
    std::ranges::copy(std::array{a, b, c, d}, brand.begin() + 4 * static_cast<std::ptrdiff_t>(leaf));
  }
  std::array<char, sizeof brand + 1> name{};
  std::memcpy(name.data(), brand.data(), sizeof brand);
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) text = fmt::format("{} {:x}", name.data(), a);
#endif
  text += fmt::format(", {}", kernels_f32().instruction_set);
#if defined(TROUPE_ONEDNN)
  onednn_cpu();
  const dnnl_version_t& version = *dnnl::version();
  text += fmt::format(", oneDNN {}.{}.{} {:x}", version.major, version.minor, version.patch,
                      static_cast<unsigned>(dnnl::get_effective_cpu_isa()));
#endif
  return text;
}

}  // namespace

std::size_t Measurer::fastest(const std::string& shape, std::span<const Way> ways) {
  if (ways.size() < 2) return 0;
  const std::scoped_lock lock(mutex_);
  if (by_rule_.contains(shape)) return 0;
  if (const MeasuredWays* known = cache_.find(shape)) {
    const auto found = std::ranges::find(ways, known->ways[0].name, &Way::name);
    if (found != ways.end()) return static_cast<std::size_t>(found - ways.begin());
  }
  if (spent_ < seconds_) return measure(shape, ways);
  if (by_rule_.empty()) {
    log::info("plans: {:.1f} s of measuring are used up; what is left goes by rule until the next start", seconds_);
  }
  by_rule_.insert(shape);
  return 0;
}

std::size_t Measurer::measure(const std::string& shape, std::span<const Way> ways) {
  enter_compute_thread();  // plans are made for one thread, and compared on one
  const double before = spent_;
  const Clock::time_point start = Clock::now();
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    auto run = ways[i].prepare();
    if (!run.ok()) continue;
    Contender& added = contenders.emplace_back(Contender{i, std::move(*run)});
    added.run();  // the first one brings code and operands into the caches
    added.take_time();
    added.times = std::clamp<std::int64_t>(static_cast<std::int64_t>(kSecondsOfARun / added.seconds), 1, 1000);
  }
  const Clock::time_point rounds = Clock::now();
  for (int round = 0; round < kRounds && (round == 0 || seconds_since(rounds) < kSecondsOfAShape); ++round) {
    for (Contender& each : contenders) each.take_time();
  }
  spent_ = before + seconds_since(start);  // with what a product within it took
  if (contenders.empty()) return 0;
  std::size_t best = 0;
  for (std::size_t i = 1; i < contenders.size(); ++i) {
    const double advantage = best == 0 ? kAdvantage : 1;
    if (contenders[i].seconds * advantage < contenders[best].seconds) best = i;
  }
  std::swap(contenders[0], contenders[best]);
  MeasuredWays measured;
  for (const Contender& each : contenders) {
    measured.ways.push_back({std::string(ways[each.way].name), each.seconds * 1e6});
  }
  cache_.add(shape, std::move(measured));
  return contenders[0].way;
}

void Measurer::keep() {
  const std::scoped_lock lock(mutex_);
  const Status kept = cache_.save();
  if (!kept.ok() && !told_) log::info("plans: not kept for the next start: {}", kept.error().message);
  told_ = told_ || !kept.ok();
}

PlanCache Measurer::measured() const {
  const std::scoped_lock lock(mutex_);
  return cache_;
}

Measurer& measurer() {
  static Measurer made(PlanCache(cache_folder("plans"), about_processor()));
  return made;
}

}  // namespace troupe::learner
