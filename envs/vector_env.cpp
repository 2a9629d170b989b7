#include <troupe/envs/vector_env.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/wait_while.hpp>

namespace troupe::envs {
namespace {

constexpr int kMaxCount = 65536;
constexpr int kMaxThreads = 256;

Status check_range(std::string_view what, std::int64_t got, int most) {
  if (got >= 1 && got <= most) return {};
  return Error{Code::kInvalidArgument, fmt::format("VectorEnv: {} is {}, expected 1..{}", what, got, most)};
}

}  // namespace

Result<std::unique_ptr<VectorEnv>> VectorEnv::make(const VectorEnvOptions& options) {
  TROUPE_TRY(check_range("count", options.count, kMaxCount));
  std::vector<std::unique_ptr<Environment>> environments;
  for (int i = 0; i < options.count; ++i) {
    const std::uint64_t seed = derive_seed(options.seed, "vector_env", static_cast<std::uint64_t>(i));
    TROUPE_ASSIGN(environments.emplace_back(), options.make(seed));
  }
  return make(std::move(environments), options.threads);
}

Result<std::unique_ptr<VectorEnv>> VectorEnv::make(std::vector<std::unique_ptr<Environment>> environments,
                                                   int threads) {
  TROUPE_TRY(check_range("count", static_cast<std::int64_t>(environments.size()), kMaxCount));
  TROUPE_TRY(check_range("threads", threads, kMaxThreads));
  const EnvSpec& spec = environments.front()->spec();
  for (const auto& environment : environments) {
    TROUPE_TRY(check_same(environment->spec().observation, spec.observation, "VectorEnv"));
    TROUPE_TRY(check_same({environment->spec().action.tensor}, {spec.action.tensor}, "VectorEnv"));
  }
  const int started = std::min<int>(threads, static_cast<int>(environments.size()));
  return std::unique_ptr<VectorEnv>(new VectorEnv(std::move(environments), started));
}

VectorEnv::VectorEnv(std::vector<std::unique_ptr<Environment>> environments, int threads)
    : environments_(std::move(environments)),
      row_bytes_(row_bytes(spec().observation)),
      action_bytes_(spec().action.tensor.bytes()),
      observations_(row_bytes_ * environments_.size()),
      results_(environments_.size(), TimeStep{}) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { worker_loop(); });
}

VectorEnv::~VectorEnv() {
  stopping_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

std::span<const std::byte> VectorEnv::observation(std::size_t index) const {
  return observations().subspan(index * row_bytes_, row_bytes_);
}

std::span<std::byte> VectorEnv::observation(std::size_t index) {
  return std::span(observations_).subspan(index * row_bytes_, row_bytes_);
}

void VectorEnv::advance(std::span<const Move> moves, std::span<const std::byte> actions) {
  TROUPE_CHECK(moves.size() == count() && actions.size() == count() * action_bytes_,
               "VectorEnv of {} {}: {} moves and {} bytes of actions, expected {} each", count(), spec().name,
               moves.size(), actions.size(), action_bytes_);
  moves_ = moves;
  actions_ = actions;
  if (workers_.empty()) {
    for (std::size_t i = 0; i < count(); ++i) move(i);
    return;
  }
  unfinished_.store(static_cast<std::uint32_t>(count()), std::memory_order_relaxed);
  next_index_.store(0, std::memory_order_release);  // from here on, workers take instances
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work();
  while (const std::uint32_t unfinished = unfinished_.load(std::memory_order_acquire)) {
    wait_while(unfinished_, unfinished);
  }
}

void VectorEnv::work() {
  while (true) {
    const std::size_t index = next_index_.fetch_add(1, std::memory_order_acquire);
    if (index >= environments_.size()) return;
    move(index);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void VectorEnv::move(std::size_t index) {
  if (moves_[index] == Move::kRest) return;
  Environment& environment = *environments_[index];
  results_[index] = moves_[index] == Move::kReset
                        ? environment.reset(observation(index))
                        : environment.step(actions_.subspan(index * action_bytes_, action_bytes_), observation(index));
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
