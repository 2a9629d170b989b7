#include <troupe/collectives/detail/meeting.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include <troupe/collectives/reduce.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr std::size_t kChunk = 16384;  // elements: long against taking one, short against the second-level cache
/// Chunks that must be left of a part that somebody is at for others to help.
constexpr std::uint32_t kWorthHelp = 4;

constexpr std::uint32_t front_of(std::uint64_t left) { return static_cast<std::uint32_t>(left >> 32); }
constexpr std::uint32_t end_of(std::uint64_t left) { return static_cast<std::uint32_t>(left); }
constexpr std::uint64_t pack(std::uint64_t front, std::uint32_t end) { return front << 32 | end; }

/// Elements over which a call's work is divided.
std::size_t work_elements(const Call& call, std::size_t ranks) {
  switch (call.kind) {
    case CallKind::kReduceScatter:
      return call.count * ranks;
    case CallKind::kBarrier:
      return 0;
    default:
      return call.count;
  }
}

}  // namespace

Meeting::Meeting(int ranks)
    : here(static_cast<std::size_t>(ranks)),
      inputs(static_cast<std::size_t>(ranks)),
      outputs(static_cast<std::size_t>(ranks)),
      weights(static_cast<std::size_t>(ranks)),
      parts_(std::make_unique<Part[]>(static_cast<std::size_t>(ranks))) {}

void Meeting::begin(const Call& c, int first, CallPlace at) {
  call = c;
  first_rank = first;
  place = at;
  arrived = 0;
  has_verdict = false;
  here.assign(here.size(), false);
  shares_.clear();
  algorithm_ = InProcessAlgorithm::kCollective;
  stage_ = 0;
  is_open_.store(false, std::memory_order_relaxed);
  is_complete_.store(false, std::memory_order_relaxed);
}

bool Meeting::open(InProcessAlgorithm algorithm, int parts) {
  const bool reduces = call.kind == CallKind::kAllReduce || call.kind == CallKind::kReduceScatter;
  if (reduces && call.op == ReduceOp::kMean) {
    if (std::accumulate(weights.begin(), weights.end(), 0.0) == 0) return false;
    shares_ = mean_shares(weights);
  }
  const std::size_t ranks = inputs.size();
  if (call.kind == CallKind::kAllReduce) algorithm_ = algorithm;
  elements_ = work_elements(call, ranks);
  chunks_ = (elements_ + kChunk - 1) / kChunk;
  const int levels = std::bit_width(ranks - 1);  // of the tree
  stages_ = algorithm_ == InProcessAlgorithm::kHierarchicalCopy ? 2 * levels
            : algorithm_ == InProcessAlgorithm::kReductionToOne ? (ranks > 1 ? 2 : 0)
                                                                : 1;
  part_count_ = is_collective() ? static_cast<std::size_t>(parts) : ranks;
  if (chunks_ == 0 || stages_ == 0) {
    is_complete_.store(true, std::memory_order_release);
  } else {
    lay_out_stage();
  }
  is_open_.store(true, std::memory_order_release);
  return true;
}

/// Of the algorithms in which a rank's part is its own values: whether it has one in this stage.
bool Meeting::takes_part(int rank, int stage) const {
  if (algorithm_ == InProcessAlgorithm::kReductionToOne) return (rank == 0) == (stage == 0);
  const int levels = stages_ / 2;
  if (stage < levels) {  // up: the first of each pair of subtrees adds the second one's sum
    const int step = 1 << stage;
    return rank % (2 * step) == 0 && (stage == 0 || rank + step < static_cast<int>(inputs.size()));
  }
  const int step = 1 << (stages_ - 1 - stage);  // down: the second copies
  return rank % (2 * step) == step;
}

void Meeting::lay_out_stage() {
  // All is known before the first part is shown: from then on others may finish this stage and lay out the next, when
  // what this one wrote or read would be that one's. Parts without chunks are left as they are, with none.
  std::vector<std::uint32_t> sizes(part_count_);
  std::size_t all = 0;
  for (std::size_t p = 0; p < part_count_; ++p) {
    std::size_t first = 0, end = 0;
    if (is_collective()) {
      first = chunks_ * p / part_count_;
      end = chunks_ * (p + 1) / part_count_;
    } else if (takes_part(static_cast<int>(p), stage_)) {
      end = chunks_;
    }
    parts_[p].first = first;
    sizes[p] = static_cast<std::uint32_t>(end - first);
    all += sizes[p];
  }
  unfinished_.store(all, std::memory_order_relaxed);
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    if (sizes[p] > 0) parts_[p].left.store(pack(0, sizes[p]), std::memory_order_release);
  }
}

bool Meeting::Part::is_empty() const {
  const std::uint64_t now = left.load(std::memory_order_relaxed);
  return front_of(now) >= end_of(now);
}

std::optional<std::size_t> Meeting::Part::take_front() {
  std::uint64_t now = left.load(std::memory_order_relaxed);
  while (front_of(now) < end_of(now)) {
    const std::uint64_t next = pack(front_of(now) + 1, end_of(now));
    if (left.compare_exchange_weak(now, next, std::memory_order_acq_rel)) return first + front_of(now);
  }
  return std::nullopt;
}

std::optional<std::size_t> Meeting::Part::take_back() {
  std::uint64_t now = left.load(std::memory_order_relaxed);
  const std::uint32_t least = owners.load(std::memory_order_relaxed) > 0 ? kWorthHelp : 1;
  while (front_of(now) + least <= end_of(now)) {
    const std::uint64_t next = pack(front_of(now), end_of(now) - 1);
    if (left.compare_exchange_weak(now, next, std::memory_order_acq_rel)) return first + end_of(now) - 1;
  }
  return std::nullopt;
}

bool Meeting::has_work() const {
  if (!is_open() || is_complete()) return false;
  return std::any_of(parts_.get(), parts_.get() + part_count_, [](const Part& part) { return !part.is_empty(); });
}

Meeting::Did Meeting::work(int own, bool stays) {
  if (!is_open() || is_complete()) return Did::kNothing;
  // Its own part first. Others may be asleep or at work on something else: whoever is here does theirs.
  std::size_t part = static_cast<std::size_t>(own) % part_count_;
  Part& mine = parts_[part];
  if (stays) mine.owners.fetch_add(1, std::memory_order_relaxed);
  std::optional<std::size_t> chunk = mine.take_front();
  for (std::size_t turn = 1; !chunk && turn < part_count_; ++turn) {
    part = (static_cast<std::size_t>(own) + turn) % part_count_;
    chunk = parts_[part].take_back();
  }
  if (chunk) do_chunk(static_cast<int>(part), *chunk * kChunk, std::min(elements_, (*chunk + 1) * kChunk));
  if (stays) mine.owners.fetch_sub(1, std::memory_order_relaxed);
  if (!chunk) return Did::kNothing;
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) > 1) return Did::kChunk;
  if (++stage_ == stages_) {
    is_complete_.store(true, std::memory_order_release);
  } else {
    lay_out_stage();
  }
  return Did::kEndOfStage;
}

void Meeting::reduce(std::size_t from, std::size_t to, std::span<float* const> out) const {
  std::vector<const float*> in(inputs);
  for (const float*& input : in) input += from;
  reduce_tree(in, shares_, call.op, to - from, out);
}

void Meeting::do_chunk(int rank, std::size_t begin, std::size_t end) const {
  if (is_collective()) return do_collective(begin, end);
  float* const own = outputs[static_cast<std::size_t>(rank)] + begin;
  const auto copy_from = [&](int other) {
    std::copy_n(outputs[static_cast<std::size_t>(other)] + begin, end - begin, own);
  };
  if (algorithm_ == InProcessAlgorithm::kReductionToOne) {
    if (stage_ == 0) return reduce(begin, end, {&own, 1});
    return copy_from(0);
  }
  const int levels = stages_ / 2;
  if (stage_ >= levels) return copy_from(rank - (1 << (stages_ - 1 - stage_)));
  const int other = rank + (1 << stage_);
  const bool has_other = other < static_cast<int>(inputs.size());
  const std::array<const float*, 2> pair{own, has_other ? outputs[static_cast<std::size_t>(other)] + begin : nullptr};
  const std::span<const float> shares =  // of the values; sums have theirs already
      stage_ > 0 || shares_.empty() ? std::span<const float>{}
                                    : std::span(shares_).subspan(static_cast<std::size_t>(rank), has_other ? 2 : 1);
  reduce_tree(std::span(pair).first(has_other ? 2 : 1), shares, call.op, end - begin, {&own, 1});
}

/// Elements [begin, end) of the call's work, for all ranks.
void Meeting::do_collective(std::size_t begin, std::size_t end) const {
  switch (call.kind) {
    case CallKind::kAllReduce: {
      std::vector<float*> out(outputs);
      for (float*& output : out) output += begin;
      return reduce(begin, end, out);
    }
    case CallKind::kReduceScatter:
      for (std::size_t to = 0; begin < end; begin = to) {  // a chunk may lie in more than one row
        const std::size_t row = begin / call.count;
        to = std::min(end, (row + 1) * call.count);
        reduce(begin, to, std::array{outputs[row] + begin % call.count});
      }
      return;
    case CallKind::kAllGather:
      for (std::size_t r = 0; r < inputs.size(); ++r) {
        for (float* const output : outputs) {
          std::copy(inputs[r] + begin, inputs[r] + end, output + r * call.count + begin);
        }
      }
      return;
    case CallKind::kBroadcast: {
      const float* const source = inputs[static_cast<std::size_t>(call.root)];
      for (float* const output : outputs) {
        if (output != source) std::copy(source + begin, source + end, output + begin);
      }
      return;
    }
    case CallKind::kBarrier:
      return;
  }
}

}  // namespace troupe::collectives::detail
