#include <troupe/collectives/detail/shared_calls.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <troupe/collectives/reduce.hpp>
#include <troupe/collectives/verdict.hpp>
#include <troupe/core/log.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr std::size_t kChunkElements = kChunkBytes / sizeof(float);
constexpr std::size_t kPieceElements = std::size_t{16} << 10;  // at most; those of all ranks fit a core's own cache

/// Whether each rank reduces a slice of the values for all, and not everything for itself.
bool is_mixed(const Call& call, int ranks) {
  return call.kind == CallKind::kAllReduce &&
         call.count * sizeof(float) * static_cast<std::size_t>(ranks - 1) > kOneShotBytes;
}
/// Whether such a call may take values where they lie.
bool may_be_pieces(const Call& call) {
  return (call.kind == CallKind::kAllReduce || call.kind == CallKind::kBroadcast) && call.count > 0 &&
         call.count <= Pieces::kMax * kPieceElements;
}
/// Of a call, in whole cache lines: enough of them for all cores, none so small that taking it is felt.
std::size_t piece_elements(const Call& call) {
  const std::size_t even = (call.count / 8 + 15) / 16 * 16;
  return std::clamp(even, kPieceElements / 4, kPieceElements);
}
std::size_t piece_count(const Call& call) { return (call.count + piece_elements(call) - 1) / piece_elements(call); }

bool reduces(const Call& call) { return call.kind == CallKind::kAllReduce || call.kind == CallKind::kReduceScatter; }

/// Copies, rounding on the way when the values travel as bfloat16.
void copy(const Call& call, const float* from, std::size_t count, float* to) {
  if (call.wire == DType::kBF16) {
    round_bf16(from, 1, count, to);
  } else if (from != to && count > 0) {
    std::memcpy(to, from, count * sizeof(float));
  }
}

}  // namespace

SharedCalls::SharedCalls(std::shared_ptr<SharedRegion> region, const GroupView& view, Activity& activity)
    : region_(std::move(region)), view_(view), activity_(activity), blocks_(view.rank) {}

std::uint64_t SharedCalls::publish() {
  region_->publish(view_.rank);
  return ++published_;
}

Status SharedCalls::await_all(TimePoint deadline) {
  const std::uint64_t here = publish();
  region_->await({.published = here}, deadline);
  if (region_->all_reached(here)) return {};  // it has formed, though a faster rank may have broken it since
  if (!region_->failed()) {
    std::vector<int> ranks;
    for (int rank = 0; rank < view_.size; ++rank) {
      if (!region_->reached(rank, here)) ranks.push_back(rank);
    }
    fail({Code::kDeadlineExceeded, fmt::format("group of epoch {}: rank {} of {} did not come", view_.epoch,
                                               fmt::join(ranks, ", "), view_.size)});
  }
  return *region_->failure();
}

Status SharedCalls::add(SharedCall& call) {
  if (const auto failure = region_->failure()) {
    take_failure();
    return *failure;
  }
  if (unfinished_ == Communicator::kMaxPending) {
    return Error{Code::kUnavailable, fmt::format("collective: rank {} has {} unfinished calls already, and calls {}",
                                                 view_.rank, unfinished_, call.call.describe())};
  }
  call.index = calls_++;
  ++unfinished_;
  queue_.push_back(&call);
  if (queue_.size() == 1) advance_first();
  return {};
}

void SharedCalls::advance_first() {
  if (const auto awaited = advance(*queue_.front())) {
    awaited_ = *awaited;
  } else {
    queue_.pop_front();
  }
}

bool SharedCalls::is_stuck() const { return region_->failed() && (queue_.front()->differs || !region_->has(awaited_)); }

void SharedCalls::take_failure() {
  const Error failure = *region_->failure();
  if (!queue_.empty() && queue_.front()->offers) {
    SharedCall& first = *queue_.front();
    if (!region_->await_stillness(view_.rank)) withdraw_block(first.out);
    // It may have been over, and then is for all.
    if (first.stage == SharedCall::Stage::kPieces && region_->done() >= first.pieces.end()) {
      first.answer = Status{};
      queue_.pop_front();
    }
  }
  for (SharedCall* const call : queue_) call->answer = failure;
  queue_.clear();
}

void SharedCalls::poll(SharedCall& call) {
  while (!call.answer) {
    const SharedCall* const first = queue_.front();
    advance_first();
    if (call.answer || queue_.front() != first) continue;
    if (is_stuck()) {
      take_failure();
    } else if (!region_->failed() && std::chrono::steady_clock::now() >= call.deadline) {
      fail(late(*first));
    } else {
      return;
    }
  }
}

void SharedCalls::wait(SharedCall& call) {
  std::optional<std::string> before;  // what this rank was at, once it says that it waits
  while (!call.answer) {
    const SharedCall* const first = queue_.front();
    advance_first();
    if (first->answer || region_->await_briefly(awaited_)) {
      if (!first->answer && is_stuck()) take_failure();
      continue;
    }
    if (!before) before = activity_.now().what;
    activity_.enter(activity_of(first->call));
    const TimePoint deadline = std::min(first->deadline, call.deadline);
    const TimePoint verdict_at = first->called + kVerdictAfter;
    const bool verdict_due = std::chrono::steady_clock::now() >= verdict_at;
    if (verdict_due && region_->claim_verdict(first->index)) log::warn("{}", missing(*first));
    region_->await(awaited_, verdict_due ? deadline : std::min(deadline, verdict_at));
    const bool is_late = !region_->has(awaited_) && std::chrono::steady_clock::now() >= deadline;
    if (is_late && !region_->failed()) fail(late(*first));
    if (is_stuck()) take_failure();
  }
  if (before) activity_.enter(*before);
}

std::string SharedCalls::missing(const SharedCall& call) const {
  std::vector<MissingRank> ranks;
  for (int rank = 0; rank < view_.size; ++rank) {
    const RankLines& lines = region_->lines(rank);
    const bool waits_for = call.stage == SharedCall::Stage::kPieces ? lines.at_work.load() != 0
                                                                    : !region_->reached(rank, awaited_.published);
    if (!waits_for) continue;
    ranks.push_back({.rank = rank, .has_entered = region_->reached(rank, call.shown), .now = lines.activity.now()});
  }
  return verdict(activity_.now().step, view_, call.call, ranks);
}

Error SharedCalls::late(const SharedCall& call) const {
  return {Code::kDeadlineExceeded,
          fmt::format("collective: {} (call {} of epoch {}, {:.1f} s)", missing(call), call.index, view_.epoch,
                      seconds(std::chrono::steady_clock::now() - call.called))};
}

/// Whether all have published that much and, if it shows the call, call the same.
bool SharedCalls::ready(SharedCall& call, std::uint64_t published) {
  if (!call.compared && !call.differs) compare(call);
  return region_->all_reached(published) && call.compared;
}

void SharedCalls::compare(SharedCall& call) {
  int first = -1;
  bool all = true;
  for (int rank = 0; rank < view_.size; ++rank) {
    if (!region_->reached(rank, call.shown)) {
      all = false;
    } else if (first < 0) {
      first = rank;
    } else if (slot(rank, call).digest != slot(first, call).digest) {
      call.differs = true;
      const Status same = check_same_call(slot(first, call).read(), first, slot(rank, call).read(), rank,
                                          {.epoch = view_.epoch, .index = call.index});
      fail(same.ok() ? Error{Code::kShapeMismatch, fmt::format("collective: ranks {} and {} call tensors whose names "
                                                               "differ after {} characters: {}",
                                                               first, rank, slot(rank, call).name.size(),
                                                               slot(first, call).read().describe())}
                     : same.error());
      return;
    }
  }
  if (!all) return;
  if (reduces(call.call) && call.call.op == ReduceOp::kMean) {
    std::vector<double> weights;
    for (int rank = 0; rank < view_.size; ++rank) weights.push_back(slot(rank, call).weight);
    if (std::accumulate(weights.begin(), weights.end(), 0.0) == 0) {
      call.differs = true;
      return fail({Code::kInvalidArgument,
                   fmt::format("collective: {}: the weights of all {} ranks are 0", call.call.describe(), view_.size)});
    }
    call.shares = mean_shares(weights);
  }
  call.compared = true;
}

void SharedCalls::begin(SharedCall& call) {
  const auto ranks = static_cast<std::size_t>(view_.size);
  call.chunk_elements = call.call.kind == CallKind::kReduceScatter ? kChunkElements / ranks : kChunkElements;
  call.chunks = std::max<std::size_t>(1, (call.call.count + call.chunk_elements - 1) / call.chunk_elements);
  call.first_chunk = chunks_;
  const bool may_offer = may_be_pieces(call.call) && has_blocks_ && view_.size > 1;
  const SharedPlace place = may_offer ? find_shareable(call.out, call.call.count * sizeof(float)) : SharedPlace{};
  call.offers = place.id != 0;
  region_->lines(view_.rank).calls[call.index % 2].write(call.call, call.weight, place);
  if (!call.offers) put(call, 0);
  call.shown = publish();
  call.put[call.first_chunk % kBuffers] = call.shown;
  call.step = 1;  // of round 0
  if (call.offers) call.pieces = {.before = pieces_, .count = piece_count(call.call)};
  if (may_offer) {
    call.stage = SharedCall::Stage::kShown;
  } else {
    begin_chunks(call);
  }
}

void SharedCalls::begin_chunks(SharedCall& call) {
  chunks_ += call.chunks;
  call.stage = SharedCall::Stage::kChunks;
}

void SharedCalls::choose(SharedCall& call) {
  int offering = 0;
  places_.clear();
  for (int rank = 0; rank < view_.size; ++rank) {
    places_.push_back(slot(rank, call).place);
    if (places_.back().id != 0) ++offering;
  }
  if (offering == view_.size) {
    if (blocks_.know(places_)) return begin_pieces(call);
    const Status mapped = blocks_.learn(places_);
    if (!mapped.ok()) {
      log::warn("group of epoch {}: rank {} cannot reach all ranks' values, which are copied instead: {}", view_.epoch,
                view_.rank, mapped.error().message);
    }
    region_->lines(view_.rank).has_mapped = mapped.ok() ? 1 : 0;
    call.mapped = publish();
    call.stage = SharedCall::Stage::kMapping;
  } else if (offering > 0) {
    put_after_all(call);
  } else {
    begin_chunks(call);
  }
}

void SharedCalls::put_after_all(SharedCall& call) {
  if (call.offers) put(call, 0);
  call.put[call.first_chunk % kBuffers] = publish();
  begin_chunks(call);
}

void SharedCalls::begin_pieces(SharedCall& call) {
  values_.clear();
  for (int rank = 0; rank < view_.size; ++rank) {
    values_.push_back(rank == view_.rank ? call.out : blocks_.values(rank, places_[static_cast<std::size_t>(rank)]));
  }
  pieces_ = call.pieces.end();
  call.stage = SharedCall::Stage::kPieces;
}

void SharedCalls::round_piece(std::size_t count) {
  rounded_.resize(piece_in_.size() * count);
  float* to = rounded_.data();
  for (const float*& values : piece_in_) {
    round_bf16(values, 1, count, to);
    values = std::exchange(to, to + count);
  }
}

void SharedCalls::do_pieces(SharedCall& call) {
  const std::size_t elements = piece_elements(call.call);
  while (const auto piece = region_->take_piece(view_.rank, call.pieces)) {
    const std::size_t begin = *piece * elements;
    const std::size_t count = std::min(elements, call.call.count - begin);
    piece_out_.assign(values_.begin(), values_.end());
    for (float*& values : piece_out_) values += begin;
    if (call.call.kind == CallKind::kAllReduce) {
      piece_in_.assign(piece_out_.begin(), piece_out_.end());
      if (call.call.wire == DType::kBF16) round_piece(count);
      reduce_chunk(call, piece_in_, count, piece_out_);
    } else {
      const float* const root = piece_out_[static_cast<std::size_t>(call.call.root)];
      for (float* const values : piece_out_) copy(call.call, root, count, values);
    }
    region_->finish_piece(view_.rank, call.pieces);
  }
}

std::optional<Awaited> SharedCalls::advance(SharedCall& call) {
  using Stage = SharedCall::Stage;
  if (call.stage == Stage::kNew) begin(call);
  if (call.stage == Stage::kShown) {
    const std::uint64_t all_done = call.offers ? call.pieces.end() : Awaited::kNever;
    if (region_->done() >= all_done) {
      // The others have agreed and done it all, with nothing to learn; their slots need not be read.
      pieces_ = all_done;
      call.answer = Status{};
      return std::nullopt;
    }
    if (!ready(call, call.shown)) return Awaited{.published = call.shown, .done = all_done};
    choose(call);
  }
  if (call.stage == Stage::kMapping) {
    if (!region_->all_reached(call.mapped)) return Awaited{.published = call.mapped};
    for (int rank = 0; rank < view_.size; ++rank) has_blocks_ &= region_->lines(rank).has_mapped != 0;
    if (has_blocks_) {
      begin_pieces(call);
    } else {
      put_after_all(call);
    }
  }
  if (call.stage == Stage::kChunks) return advance_chunks(call);
  do_pieces(call);
  if (region_->done() < call.pieces.end()) return Awaited{.done = call.pieces.end()};
  call.answer = Status{};
  return std::nullopt;
}

std::optional<Awaited> SharedCalls::advance_chunks(SharedCall& call) {
  const bool mixes = is_mixed(call.call, view_.size);
  const std::size_t lag = mixes ? 2 : 1;  // rounds between put and take of a chunk
  const auto at = [&](std::size_t chunk) { return (call.first_chunk + chunk) % kBuffers; };
  for (; call.round < call.chunks + lag; ++call.round, call.step = 0) {
    if (call.step == 0) {
      if (call.round < call.chunks) {
        put(call, call.round);
        call.put[at(call.round)] = publish();
      }
      call.step = 1;
    }
    if (call.step == 1) {
      if (mixes && call.round >= 1 && call.round <= call.chunks) {
        const std::uint64_t needed = call.put[at(call.round - 1)];
        if (!ready(call, needed)) return Awaited{.published = needed};
        mix(call, call.round - 1);
        call.mixed[at(call.round - 1)] = publish();
      }
      call.step = 2;
    }
    if (call.round >= lag) {
      const std::size_t chunk = call.round - lag;
      const std::uint64_t needed = (mixes ? call.mixed : call.put)[at(chunk)];
      if (!ready(call, needed)) return Awaited{.published = needed};
      take(call, chunk);
    }
  }
  call.answer = Status{};
  return std::nullopt;
}

void SharedCalls::put(SharedCall& call, std::size_t chunk) {
  const Call& what = call.call;
  const std::size_t begin = chunk * call.chunk_elements;
  const std::size_t count = std::min(call.chunk_elements, what.count - begin);
  float* const buffer = region_->input_buffer(view_.rank, call.first_chunk + chunk);
  const bool rounds = what.wire == DType::kBF16;  // then a rank reads its own rounded values there, too
  switch (what.kind) {
    case CallKind::kAllReduce:
      if (is_mixed(what, view_.size) && !rounds) {
        const std::size_t mine = region_->slice_begin(count, view_.rank);
        const std::size_t next = region_->slice_begin(count, view_.rank + 1);
        copy(what, call.in + begin, mine, buffer);
        copy(what, call.in + begin + next, count - next, buffer + next);
      } else {
        copy(what, call.in + begin, count, buffer);
      }
      return;
    case CallKind::kReduceScatter:
      for (int row = 0; row < view_.size; ++row) {
        if (row == view_.rank && !rounds) continue;
        const auto index = static_cast<std::size_t>(row);
        copy(what, call.in + index * what.count + begin, count, buffer + index * call.chunk_elements);
      }
      return;
    case CallKind::kAllGather:
      copy(what, call.in + begin, count, buffer);
      return;
    case CallKind::kBroadcast:
      if (view_.rank == what.root) copy(what, call.in + begin, count, buffer);
      return;
    case CallKind::kBarrier:
      return;
  }
}

void SharedCalls::reduce_chunk(const SharedCall& call, std::span<const float* const> inputs, std::size_t count,
                               std::span<float* const> outputs) {
  reduce_tree(inputs, call.shares, call.call.op, count, outputs);
  if (call.call.wire == DType::kBF16) {
    for (float* const output : outputs) round_bf16(output, 1, count, output);
  }
}

void SharedCalls::mix(SharedCall& call, std::size_t chunk) {
  const std::size_t begin = chunk * call.chunk_elements;
  const std::size_t count = std::min(call.chunk_elements, call.call.count - begin);
  const std::size_t mine = region_->slice_begin(count, view_.rank);
  const std::size_t length = region_->slice_begin(count, view_.rank + 1) - mine;
  std::vector<const float*> inputs;
  for (int rank = 0; rank < view_.size; ++rank) {
    const bool is_own = rank == view_.rank && call.call.wire != DType::kBF16;
    inputs.push_back(is_own ? call.in + begin + mine : region_->input_buffer(rank, call.first_chunk + chunk) + mine);
  }
  const std::array outputs{call.out + begin + mine, region_->result_buffer(view_.rank, call.first_chunk + chunk)};
  reduce_chunk(call, inputs, length, std::span(outputs).first(view_.size == 1 ? 1 : 2));
}

void SharedCalls::take(SharedCall& call, std::size_t chunk) {
  const Call& what = call.call;
  const std::size_t begin = chunk * call.chunk_elements;
  const std::size_t count = std::min(call.chunk_elements, what.count - begin);
  const std::uint64_t index = call.first_chunk + chunk;
  const auto from = [&](int rank) { return region_->input_buffer(rank, index); };
  const auto plain = [](const float* values, std::size_t elements, float* to) {
    if (elements > 0) std::memcpy(to, values, elements * sizeof(float));
  };
  const bool rounds = what.wire == DType::kBF16;
  switch (what.kind) {
    case CallKind::kAllReduce:
      if (is_mixed(what, view_.size)) {
        for (int turn = 1; turn < view_.size; ++turn) {  // not all from the same rank at once
          const int rank = (view_.rank + turn) % view_.size;
          const std::size_t slice = region_->slice_begin(count, rank);
          plain(region_->result_buffer(rank, index), region_->slice_begin(count, rank + 1) - slice,
                call.out + begin + slice);
        }
        return;
      }
      [[fallthrough]];
    case CallKind::kReduceScatter: {
      const bool scatters = what.kind == CallKind::kReduceScatter;
      const auto row = static_cast<std::size_t>(view_.rank);
      std::vector<const float*> inputs;
      for (int rank = 0; rank < view_.size; ++rank) {
        if (rank == view_.rank && !rounds) {
          inputs.push_back(call.in + begin + (scatters ? row * what.count : 0));
        } else {
          inputs.push_back(from(rank) + (scatters ? row * call.chunk_elements : 0));
        }
      }
      return reduce_chunk(call, inputs, count, std::array{call.out + begin});
    }
    case CallKind::kAllGather:
      for (int rank = 0; rank < view_.size; ++rank) {
        const float* const values = rank == view_.rank && !rounds ? call.in + begin : from(rank);
        plain(values, count, call.out + static_cast<std::size_t>(rank) * what.count + begin);
      }
      return;
    case CallKind::kBroadcast:
      if (view_.rank != what.root || rounds) plain(from(what.root), count, call.out + begin);
      return;
    case CallKind::kBarrier:
      return;
  }
}

}  // namespace troupe::collectives::detail
