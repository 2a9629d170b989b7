#include <troupe/replay/n_step_adder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <troupe/replay/bytes.hpp>
#include <troupe/replay/detail/signature_bytes.hpp>

namespace troupe::replay {
namespace {

constexpr std::uint64_t kMagic = 0x32504554534e5254;  // "TRNSTEP2"

std::span<std::byte> ring_row(std::vector<std::byte>& ring, std::size_t index, std::size_t bytes) {
  return std::span(ring).subspan(index * bytes, bytes);
}

/// Writes a packed row's columns into those of `out` from `column` on, and returns the column behind them.
std::size_t write_columns(std::span<const std::byte> packed, const Signature& columns, const MutableBatchView& out,
                          std::size_t column, std::size_t row) {
  for (const TensorSpec& spec : columns) {
    const std::size_t bytes = spec.bytes();
    std::memcpy(out.columns[column++].data() + row * bytes, packed.data(), bytes);
    packed = packed.subspan(bytes);
  }
  return column;
}

}  // namespace

Signature transition_signature(const Signature& observation, const Signature& acted) {
  Signature all = observation;
  all.insert(all.end(), acted.begin(), acted.end());
  all.push_back({"reward", DType::kF32, {}});
  all.push_back({"discount", DType::kF32, {}});
  for (TensorSpec column : observation) {
    column.name = "next_" + column.name;
    all.push_back(std::move(column));
  }
  return all;
}

Result<std::unique_ptr<NStepAdder>> NStepAdder::make(const NStepAdderOptions& options) {
  if (row_bytes(options.observation) == 0 || row_bytes(options.acted) == 0 || options.n_step < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("n-step adder: observation of {} bytes, action of {} bytes, n_step {}, expected all >= 1",
                             row_bytes(options.observation), row_bytes(options.acted), options.n_step)};
  }
  if (!(options.discount >= 0 && options.discount <= 1)) {
    return Error{Code::kInvalidArgument, fmt::format("n-step adder: discount is {}, expected 0..1", options.discount)};
  }
  const Signature columns = transition_signature(options.observation, options.acted);
  for (const TensorSpec& column : columns) {
    if (std::ranges::count(columns, column.name, &TensorSpec::name) == 1) continue;
    return Error{Code::kInvalidArgument, fmt::format("n-step adder: two columns are named {}", column.name)};
  }
  return std::unique_ptr<NStepAdder>(new NStepAdder(options));
}

NStepAdder::NStepAdder(const NStepAdderOptions& options)
    : options_(options),
      signature_(transition_signature(options.observation, options.acted)),
      observation_bytes_(row_bytes(options.observation)),
      acted_bytes_(row_bytes(options.acted)) {
  const auto starts = static_cast<std::size_t>(options.n_step);
  observations_.resize(starts * observation_bytes_);
  acted_.resize(starts * acted_bytes_);
  rewards_.resize(starts);
  discounts_.resize(starts);
  newest_.resize(observation_bytes_);
}

std::size_t NStepAdder::ring_index(std::int64_t age) const {
  return static_cast<std::size_t>((next_ - age + options_.n_step) % options_.n_step);
}

Status NStepAdder::first(std::span<const std::byte> observation) {
  if (observation.size() != observation_bytes_) {
    return Error{Code::kShapeMismatch, fmt::format("n-step adder: first observation has {} bytes, expected {}",
                                                   observation.size(), observation_bytes_)};
  }
  std::ranges::copy(observation, newest_.begin());
  steps_ = 0;
  in_episode_ = true;
  return {};
}

std::int64_t NStepAdder::rows_of_next(bool last) const { return last ? std::min(steps_ + 1, options_.n_step) : 1; }

Result<std::int64_t> NStepAdder::add(const AdderStep& step, const MutableBatchView& out, std::int64_t row) {
  if (!in_episode_) return Error{Code::kUnavailable, "n-step adder: add before first"};
  if (step.acted.size() != acted_bytes_ || step.observation.size() != observation_bytes_) {
    return Error{Code::kShapeMismatch,
                 fmt::format("n-step adder: got {} action and {} observation bytes, expected {} and {}",
                             step.acted.size(), step.observation.size(), acted_bytes_, observation_bytes_)};
  }
  TROUPE_TRY(check_same(*out.signature, signature_, "n-step adder"));
  const std::int64_t rows = rows_of_next(step.last);
  if (row < 0 || row + rows > out.rows) {
    return Error{Code::kOutOfRange,
                 fmt::format("n-step adder: rows {}..{} of a batch of {}", row, row + rows, out.rows)};
  }

  const auto at = static_cast<std::size_t>(next_);
  std::ranges::copy(newest_, ring_row(observations_, at, observation_bytes_).begin());
  std::ranges::copy(step.acted, ring_row(acted_, at, acted_bytes_).begin());
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
  const auto r = static_cast<std::size_t>(row);
  std::size_t column =
      write_columns(std::span(observations_).subspan(start * observation_bytes_), options_.observation, out, 0, r);
  column = write_columns(std::span(acted_).subspan(start * acted_bytes_), options_.acted, out, column, r);
  out.as<float>(column++)[r] = static_cast<float>(reward);
  out.as<float>(column++)[r] = static_cast<float>(discount);
  write_columns(newest_, options_.observation, out, column, r);
}

std::vector<std::byte> NStepAdder::save_state() const {
  ByteWriter out;
  out.reserve(observations_.size() + acted_.size() + newest_.size() + 16 * rewards_.size() + 256);
  out.put(kMagic);
  detail::put_signature(out, signature_);
  out.put(options_.n_step);
  out.put(options_.discount);
  out.put(next_);
  out.put(steps_);
  out.put(static_cast<std::uint8_t>(in_episode_));
  out.put_bytes(observations_);
  out.put_bytes(acted_);
  out.put_bytes(std::as_bytes(std::span(rewards_)));
  out.put_bytes(std::as_bytes(std::span(discounts_)));
  out.put_bytes(newest_);
  return out.take();
}

Status NStepAdder::restore_state(std::span<const std::byte> state) {
  ByteReader in(state);
  if (in.get<std::uint64_t>() != kMagic) return Error{Code::kCorrupt, "n-step adder: state of something else"};
  TROUPE_ASSIGN(const Signature signature, detail::get_signature(in));
  TROUPE_TRY(check_same(signature, signature_, "n-step adder: state"));
  const auto n_step = in.get<std::int64_t>();
  const auto discount = in.get<double>();
  if (n_step != options_.n_step || discount != options_.discount) {
    return Error{Code::kShapeMismatch, fmt::format("n-step adder: state of n_step {} and discount {}, expected {} and "
                                                   "{}",
                                                   n_step, discount, options_.n_step, options_.discount)};
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
  fill(restored.acted_);
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

MakeAdder n_step_adders(std::int64_t n_step, double discount) {
  return [n_step, discount](const Signature& observation, const Signature& acted) -> Result<std::unique_ptr<Adder>> {
    TROUPE_ASSIGN(auto adder, NStepAdder::make({observation, acted, n_step, discount}));
    return {std::move(adder)};
  };
}

}  // namespace troupe::replay
