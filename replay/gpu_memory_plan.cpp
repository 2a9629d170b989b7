#include <troupe/replay/gpu_memory_plan.hpp>

#include <algorithm>

#include <troupe/core/round_up.hpp>

namespace troupe::replay {

namespace {

constexpr std::size_t kStagingBytes = std::size_t{2} << 20;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kWord = 16;  // bytes that a thread moves at a time
constexpr std::size_t kFan = 8;    // of the sum tree

/// The offset of the next `count` elements of T, and they are taken.
template <typename T>
std::size_t take(std::size_t* bytes, std::size_t count) {
  const std::size_t at = *bytes;
  *bytes += round_up(count * sizeof(T), kAlignment);
  return at;
}

}  // namespace

GpuMemoryPlan::GpuMemoryPlan(const Signature& signature, std::int64_t capacity, bool tree) {
  for (const TensorSpec& spec : signature) {
    columns.push_back(row_bytes);
    row_bytes += spec.bytes();
  }
  stride = round_up(row_bytes, kWord);
  staged_rows = std::clamp(static_cast<std::int64_t>(kStagingBytes / stride), std::int64_t{1}, capacity);
  host_rows = std::min(staged_rows, kMostHostDraws);
  const auto slots = static_cast<std::size_t>(capacity), staged = static_cast<std::size_t>(staged_rows);
  const auto draws = static_cast<std::size_t>(kMostLaunchDraws + kMostHostDraws);
  const std::size_t batch_bytes = static_cast<std::size_t>(host_rows) * stride + signature.size() * kWord;

  std::size_t* bytes = &device.bytes;
  device.rows = take<std::byte>(bytes, slots * stride);
  device.priorities = take<double>(bytes, slots);
  device.times_sampled = take<std::int32_t>(bytes, slots);
  device.present = take<std::int64_t>(bytes, 1);
  for (std::size_t weights = slots; tree;) {
    const std::size_t nodes = (weights + kFan - 1) / kFan;
    device.levels.push_back(take<double>(bytes, nodes * kFan));
    if (nodes == 1) break;
    weights = nodes;
  }
  if (tree) device.tree_bytes = device.bytes - device.levels.front();
  for (const std::size_t half : {0, 1}) {
    device.staged_rows[half] = take<std::byte>(bytes, staged * stride);
    device.staged_items[half] = take<TroupeCudaReplayItem>(bytes, staged);
  }
  device.numbers = take<std::uint64_t>(bytes, draws);
  device.slots = take<std::uint32_t>(bytes, draws);
  device.probabilities = take<double>(bytes, draws);
  device.drawn_priorities = take<double>(bytes, draws);
  device.drawn_times = take<std::int32_t>(bytes, draws);
  device.last = take<std::int32_t>(bytes, draws);
  device.weights = take<float>(bytes, draws);
  device.batch = take<std::byte>(bytes, batch_bytes);

  bytes = &host.bytes;
  const auto host_draws = static_cast<std::size_t>(kMostHostDraws);
  for (const std::size_t half : {0, 1}) {
    host.staged_rows[half] = take<std::byte>(bytes, staged * stride);
    host.staged_items[half] = take<TroupeCudaReplayItem>(bytes, staged);
    host.numbers[half] = take<std::uint64_t>(bytes, static_cast<std::size_t>(kMostLaunchDraws));
  }
  host.host_numbers = take<std::uint64_t>(bytes, host_draws);
  host.slots = take<std::uint32_t>(bytes, host_draws);
  host.probabilities = take<double>(bytes, host_draws);
  host.priorities = take<double>(bytes, host_draws);
  host.times_sampled = take<std::int32_t>(bytes, host_draws);
  host.batch = take<std::byte>(bytes, batch_bytes);
  host.root = take<double>(bytes, kFan);
}

std::vector<std::size_t> GpuMemoryPlan::batch_columns(const Signature& signature, std::int64_t rows) const {
  std::vector<std::size_t> offsets{0};
  for (const TensorSpec& spec : signature) {
    offsets.push_back(offsets.back() + round_up(static_cast<std::size_t>(rows) * spec.bytes(), kWord));
  }
  return offsets;
}

std::int64_t capacity_within(std::size_t bytes, const Signature& signature, bool tree, std::int64_t most) {
  std::int64_t fits = 0;
  for (std::int64_t refused = most + 1; refused - fits > 1;) {
    const std::int64_t middle = fits + (refused - fits) / 2;
    (GpuMemoryPlan(signature, middle, tree).device.bytes <= bytes ? fits : refused) = middle;
  }
  return fits;
}

}  // namespace troupe::replay
