#include <troupe/collectives/detail/meeting.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include <troupe/collectives/reduce.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr std::size_t kChunk = 8192;  // elements: long against taking one, short against the second-level cache

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

Meeting::Meeting(const Call& c, int first, CallPlace at, int ranks)
    : call(c),
      first_rank(first),
      place(at),
      here(static_cast<std::size_t>(ranks)),
      inputs(static_cast<std::size_t>(ranks)),
      outputs(static_cast<std::size_t>(ranks)),
      weights(static_cast<std::size_t>(ranks)),
      portions_(std::make_unique<Portion[]>(static_cast<std::size_t>(ranks))) {}

bool Meeting::open(InProcessAlgorithm algorithm) {
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
  const std::size_t ranks = inputs.size();
  const bool is_collective = algorithm_ == InProcessAlgorithm::kCollective;
  std::vector<std::size_t> sizes(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    portions_[r].end = is_collective ? chunks_ * (r + 1) / ranks : chunks_;
    sizes[r] = is_collective ? portions_[r].end - chunks_ * r / ranks
                             : (takes_part(static_cast<int>(r), stage_) ? chunks_ : 0);
  }
  unfinished_.store(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}), std::memory_order_relaxed);
  for (std::size_t r = 0; r < ranks; ++r) {
    portions_[r].left.store(static_cast<std::int64_t>(sizes[r]), std::memory_order_release);
  }
}

std::optional<std::size_t> Meeting::take(Portion& portion) {
  if (portion.left.load(std::memory_order_relaxed) <= 0) return std::nullopt;
  const std::int64_t left = portion.left.fetch_sub(1, std::memory_order_acq_rel);
  if (left <= 0) return std::nullopt;
  return portion.end - static_cast<std::size_t>(left);
}

bool Meeting::has_work() const {
  if (!is_open() || is_complete()) return false;
  return std::any_of(portions_.get(), portions_.get() + inputs.size(),
                     [](const Portion& portion) { return portion.left.load(std::memory_order_relaxed) > 0; });
}

Meeting::Did Meeting::work(int rank) {
  if (!is_open() || is_complete()) return Did::kNothing;
  const auto own = static_cast<std::size_t>(rank);
  // Its own part first. Others may be asleep or at work on something else: whoever is here does theirs.
  std::optional<std::size_t> chunk;
  std::size_t part = own;
  for (std::size_t turn = 0; !chunk && turn < inputs.size(); ++turn) {
    part = (own + turn) % inputs.size();
    chunk = take(portions_[part]);
  }
  if (!chunk) return Did::kNothing;
  do_chunk(static_cast<int>(part), *chunk * kChunk, std::min(elements_, (*chunk + 1) * kChunk));
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
  if (algorithm_ == InProcessAlgorithm::kCollective) return do_collective(begin, end);
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
