#include <troupe/replay/n_step_adder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <troupe/replay/bytes.hpp>

namespace troupe::replay {
namespace {

constexpr std::uint64_t kMagic = 0x31504554534e5254;  // "TRNSTEP1"
enum Column : std::size_t { kObservation = 0, kAction = 1, kReward = 2, kDiscount = 3, kNextObservation = 4 };

}  // namespace

Signature transition_signature(std::int64_t observation_size, std::int64_t action_size) {
  return {{"observation", DType::kF32, {observation_size}},
          {"action", DType::kF32, {action_size}},
          {"reward", DType::kF32, {}},
          {"discount", DType::kF32, {}},
          {"next_observation", DType::kF32, {observation_size}}};
}

Result<NStepAdder> NStepAdder::make(const NStepAdderOptions& options) {
  if (options.observation_size < 1 || options.action_size < 1 || options.n_step < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("n-step adder: observation_size {}, action_size {}, n_step {}, expected all >= 1",
                             options.observation_size, options.action_size, options.n_step)};
  }
  if (!(options.discount >= 0 && options.discount <= 1)) {
    return Error{Code::kInvalidArgument, fmt::format("n-step adder: discount is {}, expected 0..1", options.discount)};
  }
  return NStepAdder(options);
}

NStepAdder::NStepAdder(const NStepAdderOptions& options)
    : options_(options), signature_(transition_signature(options.observation_size, options.action_size)) {
  observations_.resize(static_cast<std::size_t>(options.n_step * options.observation_size));
  actions_.resize(static_cast<std::size_t>(options.n_step * options.action_size));
  rewards_.resize(static_cast<std::size_t>(options.n_step));
  discounts_.resize(static_cast<std::size_t>(options.n_step));
  newest_.resize(static_cast<std::size_t>(options.observation_size));
}

std::size_t NStepAdder::ring_index(std::int64_t age) const {
  return static_cast<std::size_t>((next_ - age + options_.n_step) % options_.n_step);
}

Status NStepAdder::first(std::span<const float> observation) {
  if (observation.size() != newest_.size()) {
    return Error{Code::kShapeMismatch, fmt::format("n-step adder: first observation has {} values, expected {}",
                                                   observation.size(), newest_.size())};
  }
  std::ranges::copy(observation, newest_.begin());
  steps_ = 0;
  in_episode_ = true;
  return {};
}

std::int64_t NStepAdder::rows_of_next(bool last) const { return last ? std::min(steps_ + 1, options_.n_step) : 1; }

Result<std::int64_t> NStepAdder::add(const AdderStep& step, const MutableBatchView& out, std::int64_t row) {
  if (!in_episode_) return Error{Code::kUnavailable, "n-step adder: add before first"};
  const auto action_size = static_cast<std::size_t>(options_.action_size);
  if (step.action.size() != action_size || step.observation.size() != newest_.size()) {
    return Error{Code::kShapeMismatch,
                 fmt::format("n-step adder: got {} action and {} observation values, expected {} and {}",
                             step.action.size(), step.observation.size(), action_size, newest_.size())};
  }
  TROUPE_TRY(check_same(*out.signature, signature_, "n-step adder"));
  const std::int64_t rows = rows_of_next(step.last);
  if (row < 0 || row + rows > out.rows) {
    return Error{Code::kOutOfRange,
                 fmt::format("n-step adder: rows {}..{} of a batch of {}", row, row + rows, out.rows)};
  }

  const auto at = static_cast<std::size_t>(next_);
  std::ranges::copy(newest_, observations_.begin() + static_cast<std::ptrdiff_t>(at * newest_.size()));
  std::ranges::copy(step.action, actions_.begin() + static_cast<std::ptrdiff_t>(at * action_size));
  rewards_[at] = step.reward;
  discounts_[at] = step.discount;
  std::ranges::copy(step.observation, newest_.begin());
  next_ = (next_ + 1) % options_.n_step;
  steps_ = std::min(steps_ + 1, options_.n_step);

  // One transition from the oldest start to here; at the end of the episode, also those from all younger starts.
  for (std::int64_t i = 0; i < rows; ++i) write_transition(steps_ - i, out, row + i);
  if (step.last) in_episode_ = false;
  return rows;
}

void NStepAdder::write_transition(std::int64_t steps, const MutableBatchView& out, std::int64_t row) const {
  double reward = 0;
  double discount = 1;
  for (std::int64_t age = steps; age >= 1; --age) {
    const std::size_t at = ring_index(age);
    reward += discount * rewards_[at];
    discount *= options_.discount * discounts_[at];
  }
  const std::size_t start = ring_index(steps);
  const std::size_t observation_size = newest_.size();
  const auto action_size = static_cast<std::size_t>(options_.action_size);
  const auto r = static_cast<std::size_t>(row);
  std::copy_n(observations_.data() + start * observation_size, observation_size,
              out.as<float>(kObservation).data() + r * observation_size);
  std::copy_n(actions_.data() + start * action_size, action_size, out.as<float>(kAction).data() + r * action_size);
  out.as<float>(kReward)[r] = static_cast<float>(reward);
  out.as<float>(kDiscount)[r] = static_cast<float>(discount);
  std::copy_n(newest_.data(), observation_size, out.as<float>(kNextObservation).data() + r * observation_size);
}

std::vector<std::byte> NStepAdder::save_state() const {
  ByteWriter out;
  out.put(kMagic);
  out.put(options_.observation_size);
  out.put(options_.action_size);
  out.put(options_.n_step);
  out.put(options_.discount);
  out.put(next_);
  out.put(steps_);
  out.put(static_cast<std::uint8_t>(in_episode_));
  out.put_bytes(std::as_bytes(std::span(observations_)));
  out.put_bytes(std::as_bytes(std::span(actions_)));
  out.put_bytes(std::as_bytes(std::span(rewards_)));
  out.put_bytes(std::as_bytes(std::span(discounts_)));
  out.put_bytes(std::as_bytes(std::span(newest_)));
  return out.take();
}

Status NStepAdder::restore_state(std::span<const std::byte> state) {
  ByteReader in(state);
  if (in.get<std::uint64_t>() != kMagic) return Error{Code::kCorrupt, "n-step adder: state of something else"};
  NStepAdderOptions saved;
  saved.observation_size = in.get<std::int64_t>();
  saved.action_size = in.get<std::int64_t>();
  saved.n_step = in.get<std::int64_t>();
  saved.discount = in.get<double>();
  if (saved.observation_size != options_.observation_size || saved.action_size != options_.action_size ||
      saved.n_step != options_.n_step || saved.discount != options_.discount) {
    return Error{Code::kShapeMismatch,
                 fmt::format("n-step adder: state of observation_size {}, action_size {}, n_step {}, discount {}, "
                             "expected {}, {}, {}, {}",
                             saved.observation_size, saved.action_size, saved.n_step, saved.discount,
                             options_.observation_size, options_.action_size, options_.n_step, options_.discount)};
  }
  NStepAdder restored(options_);
  restored.next_ = in.get<std::int64_t>();
  restored.steps_ = in.get<std::int64_t>();
  const auto in_episode = in.get<std::uint8_t>();
  restored.in_episode_ = in_episode == 1;
  auto fill = [&in](auto& values) {
    const auto to = std::as_writable_bytes(std::span(values));
    const auto from = in.get_bytes(to.size());
    std::ranges::copy(from, to.begin());
  };
  fill(restored.observations_);
  fill(restored.actions_);
  fill(restored.rewards_);
  fill(restored.discounts_);
  fill(restored.newest_);
  if (!in.finished() || in_episode > 1 || restored.next_ < 0 || restored.next_ >= options_.n_step ||
      restored.steps_ < 0 || restored.steps_ > options_.n_step) {
    return Error{Code::kCorrupt, "n-step adder: state is cut short, too long or impossible"};
  }
  *this = std::move(restored);
  return {};
}

}  // namespace troupe::replay
