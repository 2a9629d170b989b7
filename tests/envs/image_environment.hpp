#pragma once
// A small environment of what the suite has not: images of bytes, a second column, a discrete action and an end by
// itself. A spot walks over a picture: action 0 stays, 1 and 2 go up and down a row. Reward 1 in the row that the
// column "goal" names, where the episode ends with discount 0; after 50 steps it ends with discount 1.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <troupe/core/rng.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {

class ImageEnvironment final : public Environment {
 public:
  static constexpr std::int64_t kRows = 84;
  static constexpr std::int64_t kSteps = 50;

  explicit ImageEnvironment(std::uint64_t seed) : rng_(seed) {
    spec_.name = "spot";
    spec_.observation = {{"pixels", DType::kU8, {kRows, kRows, 3}}, {"goal", DType::kI32, {1}}};
    spec_.action = ActionSpec::discrete(3);
    spec_.episode_steps = kSteps;
    spec_.control_dt = 0.1;
  }
  static Result<std::unique_ptr<Environment>> make(std::uint64_t seed) {
    return {std::make_unique<ImageEnvironment>(seed)};
  }

  const EnvSpec& spec() const override { return spec_; }
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    rng_ = Rng(seed);
    return reset(observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override {
    at_ = static_cast<std::int32_t>(rng_.below(kRows));
    goal_ = static_cast<std::int32_t>(rng_.below(kRows));
    step_ = 0;
    playing_ = true;
    observe(observation);
    return TimeStep{};
  }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    std::int32_t choice = -1;
    if (action.size() == sizeof(choice)) std::memcpy(&choice, action.data(), sizeof(choice));
    if (choice < 0 || choice >= spec_.action.choices) {
      return Error{Code::kInvalidArgument,
                   fmt::format("spot: action of {} bytes, {}, expected one of 3 choices", action.size(), choice)};
    }
    if (!playing_) return Error{Code::kUnavailable, "spot: step() outside of an episode, expected reset()"};
    at_ = static_cast<std::int32_t>((at_ + (choice == 1 ? kRows - 1 : choice == 2 ? 1 : 0)) % kRows);
    ++step_;
    observe(observation);
    const bool there = at_ == goal_;
    playing_ = !there && step_ < kSteps;
    return TimeStep{playing_ ? StepType::kMid : StepType::kLast, there ? 1.0 : 0.0, there ? 0.0 : 1.0};
  }
  std::vector<std::byte> save_state() const override {
    const std::int64_t numbers[] = {at_, goal_, step_, playing_};
    const auto rng = std::as_bytes(std::span(rng_.state())), rest = std::as_bytes(std::span(numbers));
    std::vector<std::byte> state(rng.begin(), rng.end());
    state.insert(state.end(), rest.begin(), rest.end());
    return state;
  }
  Status restore_state(std::span<const std::byte> state) override {
    std::int64_t numbers[4];
    Rng::State rng;
    if (state.size() != sizeof(rng) + sizeof(numbers)) return Error{Code::kCorrupt, "spot: state of another length"};
    std::memcpy(rng.data(), state.data(), sizeof(rng));
    std::memcpy(numbers, state.data() + sizeof(rng), sizeof(numbers));
    rng_.set_state(rng);
    at_ = static_cast<std::int32_t>(numbers[0]);
    goal_ = static_cast<std::int32_t>(numbers[1]);
    step_ = numbers[2];
    playing_ = numbers[3] != 0;
    return {};
  }
  Status render(const RenderOptions&, std::span<std::uint8_t>) override {
    return Error{Code::kUnavailable, "spot: its observation is all there is to see"};
  }

 private:
  void observe(std::span<std::byte> observation) const {
    const std::size_t pixels = spec_.observation[0].bytes();
    std::ranges::fill(observation, std::byte{0});
    std::ranges::fill(observation.subspan(static_cast<std::size_t>(at_) * kRows * 3, kRows * 3), std::byte{255});
    std::memcpy(observation.data() + pixels, &goal_, sizeof(goal_));
  }

  EnvSpec spec_;
  Rng rng_;
  std::int32_t at_ = 0, goal_ = 0;
  std::int64_t step_ = 0;
  bool playing_ = false;
};

}  // namespace troupe::envs
