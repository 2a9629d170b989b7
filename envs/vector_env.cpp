#include <troupe/envs/vector_env.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/core/rng.hpp>

namespace troupe::envs {
namespace {

constexpr int kMaxCount = 65536;
constexpr int kMaxThreads = 256;

/// Tells the CPU that this is a waiting loop.
void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Returns when `value` is no longer `old`. Looks for some 20 us before it sleeps, since rounds mostly follow each
/// other at once and waking a sleeper costs more than that. It does not yield: on a busy machine that gives the core
/// away for milliseconds (measured: the caller then does nearly all of the work).
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  constexpr int kLooks = 1000;
  for (int i = 0; i < kLooks; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Result<std::unique_ptr<VectorEnv>> VectorEnv::make(const VectorEnvOptions& options) {
  const auto check_range = [](std::string_view what, int got, int most) -> Status {
    if (got >= 1 && got <= most) return {};
    return Error{Code::kInvalidArgument, fmt::format("VectorEnv: {} is {}, expected 1..{}", what, got, most)};
  };
  TROUPE_TRY(check_range("count", options.count, kMaxCount));
  TROUPE_TRY(check_range("threads", options.threads, kMaxThreads));
  std::vector<std::unique_ptr<Environment>> environments;
  for (int i = 0; i < options.count; ++i) {
    const std::uint64_t seed = derive_seed(options.seed, "vector_env", static_cast<std::uint64_t>(i));
    TROUPE_ASSIGN(environments.emplace_back(), options.make(seed));
  }
  return std::unique_ptr<VectorEnv>(new VectorEnv(std::move(environments), std::min(options.threads, options.count)));
}

VectorEnv::VectorEnv(std::vector<std::unique_ptr<Environment>> environments, int threads)
    : environments_(std::move(environments)),
      row_bytes_(row_bytes(spec().observation)),
      action_size_(static_cast<std::size_t>(spec().action_size())),
      observations_(row_bytes_ * environments_.size()),
      time_steps_(environments_.size()),
      errors_(environments_.size()) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { worker_loop(); });
}

VectorEnv::~VectorEnv() {
  stopping_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

Status VectorEnv::reset() { return run(nullptr); }

Status VectorEnv::step(std::span<const double> actions) {
  const std::size_t expected = environments_.size() * action_size_;
  if (actions.size() != expected) {
    return Error{Code::kInvalidArgument, fmt::format("VectorEnv of {} {}: step() got {} numbers, expected {} x {}",
                                                     count(), spec().name, actions.size(), count(), action_size_)};
  }
  return run(actions.data());
}

std::span<const std::byte> VectorEnv::observation(int index) const {
  return observations().subspan(static_cast<std::size_t>(index) * row_bytes_, row_bytes_);
}

Status VectorEnv::run(const double* actions) {
  actions_ = actions;
  unfinished_.store(static_cast<std::uint32_t>(environments_.size()), std::memory_order_relaxed);
  next_index_.store(0, std::memory_order_release);  // from here on, workers take instances
  if (!workers_.empty()) {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  work();
  while (const std::uint32_t unfinished = unfinished_.load(std::memory_order_acquire)) {
    wait_while(unfinished_, unfinished);
  }
  for (std::size_t i = 0; i < errors_.size(); ++i) {
    if (errors_[i]) return Error{errors_[i]->code, fmt::format("environment {}: {}", i, errors_[i]->message)};
  }
  return {};
}

void VectorEnv::work() {
  while (true) {
    const std::size_t index = next_index_.fetch_add(1, std::memory_order_acquire);
    if (index >= environments_.size()) return;
    advance(index);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void VectorEnv::advance(std::size_t index) {
  Environment& environment = *environments_[index];
  const auto row = std::span(observations_).subspan(index * row_bytes_, row_bytes_);
  Result<TimeStep> result = actions_ == nullptr || time_steps_[index].last()
                                ? environment.reset(row)
                                : environment.step({actions_ + index * action_size_, action_size_}, row);
  if (result.ok()) {
    time_steps_[index] = *result;
    errors_[index].reset();
  } else {
    errors_[index] = result.error();
  }
}

void VectorEnv::worker_loop() {
  std::uint32_t seen = 0;
  while (true) {
    wait_while(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    work();
  }
}

}  // namespace troupe::envs
