#pragma once
// An environment that a test scripts, and one with a row to write to: what the tests of wrappers play.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <troupe/envs/environment.hpp>
#include <troupe/envs/wrapper.hpp>

namespace troupe::envs::test {

/// Counts: its observation "count" float64 and image "image" uint8[2, 3, 1] are the number of steps since the reset,
/// its reward too, and each step's discount is `discount`. The task ends an episode after `task_steps` with discount 0,
/// the time limit after `limit` with `discount`.
class Counting final : public Environment {
 public:
  struct Options {
    std::int64_t limit = 10, task_steps = 1000;
    double discount = 1;
    Signature observation = {{"count", DType::kF64, Shape{}}, {"image", DType::kU8, {2, 3, 1}}};
  };
  explicit Counting(Options options) : options_(std::move(options)) {
    spec_ = {.name = "counting",
             .observation = options_.observation,
             .action = ActionSpec::continuous({-1}, {1}),
             .episode_steps = options_.limit,
             .control_dt = 0.5};
  }

  const EnvSpec& spec() const override { return spec_; }
  Result<TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<TimeStep> reset(std::span<std::byte> observation) override {
    state_ = {0, 1};
    return observed(TimeStep{}, observation);
  }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    if (action.size() != sizeof(double)) return Error{Code::kInvalidArgument, "counting: an action is one float64"};
    if (state_.playing == 0) return Error{Code::kUnavailable, "counting: step() outside of an episode"};
    ++state_.count;
    const bool done = state_.count >= options_.task_steps, last = done || state_.count >= options_.limit;
    if (last) state_.playing = 0;
    return observed(
        {last ? StepType::kLast : StepType::kMid, static_cast<double>(state_.count), done ? 0 : options_.discount},
        observation);
  }
  std::vector<std::byte> save_state() const override {
    const auto bytes = std::as_bytes(std::span(&state_, 1));
    return {bytes.begin(), bytes.end()};
  }
  Status restore_state(std::span<const std::byte> state) override {
    State read;
    if (state.size() != sizeof(read)) return Error{Code::kCorrupt, "counting: a state of another length"};
    std::memcpy(&read, state.data(), sizeof(read));
    if (read.count < 0) return Error{Code::kCorrupt, "counting: a state that cannot be"};
    state_ = read;
    return {};
  }

 private:
  Result<TimeStep> observed(const TimeStep& step, std::span<std::byte> observation) const {
    for (const TensorSpec& column : spec_.observation) {
      if (column.dtype == DType::kU8) {
        std::memset(observation.data(), static_cast<int>(state_.count), column.bytes());
      } else {
        const auto count = static_cast<double>(state_.count);
        std::memcpy(observation.data(), &count, sizeof(count));
      }
      observation = observation.subspan(column.bytes());
    }
    return step;
  }

  struct State {
    std::int64_t count = 0, playing = 0;
  };
  Options options_;
  EnvSpec spec_;
  State state_;
};

inline MakeEnvironment counting(Counting::Options options = {}) {
  return [options](std::uint64_t) -> Result<std::unique_ptr<Environment>> {
    return {std::make_unique<Counting>(options)};
  };
}

/// One environment, made by `make`, and the row that it writes to.
class Play {
 public:
  explicit Play(const MakeEnvironment& make, std::uint64_t seed = 0)
      : env(make(seed).value()), row(row_bytes(env->spec().observation)) {}

  TimeStep reset() { return env->reset(row).value(); }
  Result<TimeStep> try_step(double action = 0) { return env->step(std::as_bytes(std::span(&action, 1)), row); }
  TimeStep step(double action = 0) { return try_step(action).value(); }
  /// A column of the row, in numbers of T.
  template <typename T>
  std::vector<T> column(const char* name) const {
    std::size_t at = 0;
    for (const TensorSpec& column : env->spec().observation) {
      if (column.name == name) {
        std::vector<T> values(column.bytes() / sizeof(T));
        std::memcpy(values.data(), row.data() + at, column.bytes());
        return values;
      }
      at += column.bytes();
    }
    return {};
  }

  std::unique_ptr<Environment> env;
  std::vector<std::byte> row;
};

/// The message with which a wrapper refuses an environment; "ok" when it takes it.
inline std::string refusal(const MakeEnvironment& make, const Wrap& wrap) {
  const auto made = wrapped(make, {{"wrapper", wrap}})(0);
  return made.ok() ? "ok" : made.error().message;
}

}  // namespace troupe::envs::test
