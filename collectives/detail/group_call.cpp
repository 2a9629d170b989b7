#include <troupe/collectives/detail/group_call.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <troupe/collectives/reduce.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr std::size_t kBlock = 4096;  // elements unpacked at once: those of all ranks stay in the second-level cache

/// bfloat16 is the upper half of a float32; `values` are rounded already.
void pack(const float* values, std::size_t count, std::uint16_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[i]) >> 16);
  }
}

void unpack(const std::uint16_t* values, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(values[i]) << 16);
}

bool is_send(const Step& step) { return step.kind == Step::Kind::kSendInput || step.kind == Step::Kind::kSendResult; }

}  // namespace

GroupCall::GroupCall(const GroupContext& context, CallPlace place, Call call, double weight, SteadyTime deadline,
                     CallBuffers buffers)
    : context_(context),
      inbox_(context.inbox),
      view_(context.view),
      place_(place),
      call_(std::move(call)),
      weight_(weight),
      deadline_(deadline),
      buffers_(buffers),
      levels_(doubling(view_.rank, view_.size)),
      heads_(static_cast<std::size_t>(view_.size)),
      known_(static_cast<std::size_t>(view_.size)),
      values_(static_cast<std::size_t>(view_.size)),
      received_(static_cast<std::size_t>(view_.size)),
      sent_to_(static_cast<std::size_t>(view_.size)),
      bytes_to_send_(static_cast<std::size_t>(view_.size)) {
  const bool unread = reduces() && call_.op == ReduceOp::kMean && weight_ == 0;
  const bool speaks = call_.kind != CallKind::kBroadcast || call_.root == view_.rank;
  const auto own = static_cast<std::size_t>(view_.rank);
  heads_[own] = write_head(call_, weight_, rides() && !unread && speaks ? buffers_.input : std::span<const float>{});
  known_[own] = read_head(heads_[own]);
}

bool GroupCall::rides() const {
  if (view_.size == 1) return true;
  const auto ranks = static_cast<std::size_t>(view_.size);
  std::size_t bytes = call_.count * sizeof(float);
  if (call_.kind == CallKind::kReduceScatter) bytes *= ranks;
  if (call_.kind != CallKind::kBroadcast) bytes *= ranks;
  return bytes <= kSmallBytes;
}

void GroupCall::take(Arrived arrived) {
  if (arrived.head.kind == MessageKind::kHeads) {
    early_heads_[arrived.head.step] = std::move(arrived);
  } else {
    values_[static_cast<std::size_t>(arrived.rank)].push_back(std::move(arrived));
  }
}

Status GroupCall::advance() {
  unsent_.reset();
  TROUPE_ASSIGN(const Progress heads, gather_heads());
  if (heads == Progress::kBlocked) return {};
  if (!begun_) {
    TROUPE_TRY(begin());
    begun_ = true;
  }
  if (up_) {
    TROUPE_ASSIGN(const Progress up, do_local(false));
    if (up == Progress::kBlocked) return {};
    up_ = false;
  }
  while (step_ < steps_.size()) {
    TROUPE_ASSIGN(const Progress progress, do_step(steps_[step_]));
    if (progress == Progress::kBlocked) return {};
    ++step_;
  }
  if (down_) {
    TROUPE_ASSIGN(const Progress down, do_local(true));
    if (down == Progress::kBlocked) return {};
    down_ = false;
  }
  take_back();
  complete_ = true;
  return {};
}

void GroupCall::end() {
  local_work_.reset();
  take_back();
}

void GroupCall::take_back() {
  for (const std::shared_ptr<LentBytes>& lent : lent_) {
    if (lent.use_count() > 1) {
      lent->take_back();
    } else {
      lent->with([](auto) {});  // the carrier needs it no more: what it read, it read before this
    }
  }
  lent_.clear();
}

Result<GroupCall::Progress> GroupCall::do_local(bool down) {
  if (!local_work_) {
    // From now on a failure of this call ends the wait; one from before is seen here.
    context_.in_local = place_.index + 1;
    if (const auto failure = inbox_.failure(place_.index)) return *failure;
    const auto left = std::max<Duration>(deadline_ - std::chrono::steady_clock::now(), std::chrono::milliseconds(1));
    CallOptions options{.name = call_.name, .shape = call_.shape, .timeout = left};
    const ReduceOp op = call_.op == ReduceOp::kMean ? ReduceOp::kSum : call_.op;
    local_work_ = down ? context_.local->broadcast(buffers_.result, 0, std::move(options))
                       : context_.local->all_reduce(buffers_.result, op, std::move(options));
  }
  if (!local_work_->done()) return Progress::kBlocked;
  const Status status = local_work_->wait();
  local_work_.reset();
  context_.in_local = 0;
  TROUPE_TRY(status);
  return Progress::kDone;
}

bool GroupCall::try_send(int rank, MessageHead head, std::span<const std::byte> body) {
  head.index = place_.index;
  return is_sent(inbox_.send(rank, head, body));
}

/// In every schedule values that were sent are overwritten only by a result that needs them, and so not before the rank
/// has got them.
bool GroupCall::try_lend(int rank, MessageHead head, std::span<const std::byte> body) {
  head.index = place_.index;
  auto lent = std::make_shared<LentBytes>(body);
  if (!is_sent(inbox_.lend(rank, head, lent))) return false;
  lent_.push_back(std::move(lent));
  return true;
}

bool GroupCall::is_sent(const Status& status) {
  if (status.ok()) return true;
  unsent_ = status.error();  // the peer's queue is full, or the way to it is not there yet: later
  return false;
}

Result<GroupCall::Progress> GroupCall::gather_heads() {
  for (; level_ < levels_.size(); ++level_, sent_ = 0) {
    const DoublingLevel& level = levels_[level_];
    if (sent_ < level.send_to.size()) {
      const auto first = static_cast<std::size_t>(level.first);
      const auto block = write_block(std::span(heads_).subspan(first, static_cast<std::size_t>(level.count)));
      for (; sent_ < level.send_to.size(); ++sent_) {
        if (!try_send(level.send_to[sent_], {.kind = MessageKind::kHeads, .step = level_}, block)) {
          return Progress::kBlocked;
        }
      }
    }
    if (level.receive_from < 0) continue;
    const auto arrived = early_heads_.find(level_);
    if (arrived == early_heads_.end()) return Progress::kBlocked;
    const Status kept = keep_heads(level, arrived->second);
    inbox_.release(arrived->second);
    early_heads_.erase(arrived);
    TROUPE_TRY(kept);
  }
  return Progress::kDone;
}

Status GroupCall::keep_heads(const DoublingLevel& level, const Arrived& arrived) {
  const Error corrupt{Code::kCorrupt, fmt::format("collective: rank {} sent bad heads for {} (call {} of epoch {})",
                                                  arrived.rank, call_.describe(), place_.index, place_.epoch)};
  auto block = read_block(arrived.payload, static_cast<std::size_t>(level.receive_count));
  if (!block || arrived.rank != level.receive_from) return corrupt;
  for (std::size_t i = 0; i < block->size(); ++i) {
    const std::size_t rank = static_cast<std::size_t>(level.receive_first) + i;
    known_[rank] = read_head((*block)[i]);
    if (!known_[rank]) return corrupt;
    heads_[rank] = std::move((*block)[i]);
  }
  return {};
}

Status GroupCall::disagreement() const {
  // All ranks that know all calls say the same: the lowest rank and the first that differs from it.
  const std::size_t first = static_cast<std::size_t>(
      std::find_if(known_.begin(), known_.end(), [](const auto& head) { return head.has_value(); }) - known_.begin());
  for (std::size_t rank = first + 1; rank < known_.size(); ++rank) {
    if (!known_[rank]) continue;
    TROUPE_TRY(check_same_call(known_[first]->call, static_cast<int>(first), known_[rank]->call, static_cast<int>(rank),
                               place_));
  }
  return {};
}

Status GroupCall::begin() {
  TROUPE_TRY(disagreement());
  if (reduces() && call_.op == ReduceOp::kMean) {
    std::vector<double> weights;
    for (const auto& head : known_) weights.push_back(head->weight);
    if (std::accumulate(weights.begin(), weights.end(), 0.0) == 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("collective: {}: the weights of all {} ranks are 0", call_.describe(), view_.size)};
    }
    shares_ = mean_shares(weights);
  }
  if (rides()) {
    for (std::size_t rank = 0; rank < known_.size(); ++rank) {
      const bool silent = call_.kind == CallKind::kBarrier || share(static_cast<int>(rank)) == 0 ||
                          (call_.kind == CallKind::kBroadcast && static_cast<int>(rank) != call_.root);
      const std::size_t expected = silent                                   ? 0
                                   : call_.kind == CallKind::kReduceScatter ? call_.count * known_.size()
                                                                            : call_.count;
      // A share can be 0 where the weight is not, if it is too small for a float32.
      if (known_[rank]->values.size() != expected && !(silent && known_[rank]->weight > 0)) {
        return Error{Code::kCorrupt, fmt::format("collective: rank {} sent {} values for {}, expected {}", rank,
                                                 known_[rank]->values.size(), call_.describe(), expected)};
      }
    }
    finish_small();
    return {};
  }
  const auto own = static_cast<std::size_t>(view_.rank) * call_.count;
  if (call_.kind == CallKind::kAllGather) {
    std::copy(buffers_.input.begin(), buffers_.input.end(), buffers_.result.begin() + static_cast<std::ptrdiff_t>(own));
    if (rounds()) round_bf16(buffers_.result.data() + own, 1, call_.count, buffers_.result.data() + own);
  } else if (call_.kind == CallKind::kBroadcast && call_.root == view_.rank && rounds()) {
    round_bf16(buffers_.result.data(), 1, call_.count, buffers_.result.data());
  }
  plan();
  return {};
}

void GroupCall::finish_small() {
  if (rounds() && view_.size > 1) {
    for (std::size_t rank = 0; rank < known_.size(); ++rank) {
      std::vector<float>& values = known_[rank]->values;
      round_bf16(values.data(), share(static_cast<int>(rank)), values.size(), values.data());
    }
  }
  switch (call_.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter: {
      const std::size_t row =
          call_.kind == CallKind::kReduceScatter ? call_.count * static_cast<std::size_t>(view_.rank) : 0;
      std::vector<const float*> inputs;
      std::vector<float> zeros(call_.count);
      for (const auto& head : known_) {
        inputs.push_back(head->values.empty() ? zeros.data() : head->values.data() + row);
      }
      const std::array<float*, 1> output{buffers_.result.data()};
      const bool scaled = rounds() && view_.size > 1;
      reduce_tree(inputs, scaled ? std::span<const float>{} : shares_, call_.op, call_.count, output);
      if (scaled) round_bf16(buffers_.result.data(), 1, call_.count, buffers_.result.data());
      return;
    }
    case CallKind::kAllGather:
      for (std::size_t rank = 0; rank < known_.size(); ++rank) {
        std::copy(known_[rank]->values.begin(), known_[rank]->values.end(),
                  buffers_.result.begin() + static_cast<std::ptrdiff_t>(rank * call_.count));
      }
      return;
    case CallKind::kBroadcast: {
      const std::vector<float>& values = known_[static_cast<std::size_t>(call_.root)]->values;
      std::copy(values.begin(), values.end(), buffers_.result.begin());
      return;
    }
    case CallKind::kBarrier:
      return;
  }
}

void GroupCall::plan() {
  const GroupHosts& hosts = context_.hosts;
  const bool hierarchical = call_.kind == CallKind::kAllReduce &&
                            static_cast<int>(hosts.speakers.size()) < view_.size &&
                            (hosts.keeps_tree || !context_.deterministic);
  if (hierarchical) {
    parts_ = hosts.speakers;
    up_ = down_ = hosts.is_shared();
  } else {
    parts_.resize(static_cast<std::size_t>(view_.size));
    std::iota(parts_.begin(), parts_.end(), 0);
  }
  Place place{.rank = -1, .size = static_cast<int>(parts_.size())};
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part] == view_.rank) place.rank = static_cast<int>(part);
    if (!shares_.empty()) place.contributes.push_back(share(parts_[part]) != 0);
  }
  const bool all = std::find(place.contributes.begin(), place.contributes.end(), false) == place.contributes.end();
  const bool ring =
      call_.kind == CallKind::kAllReduce && !context_.deterministic && !rounds() && all && place.size >= kRingRanks;
  if ((hierarchical || ring) && !shares_.empty()) {
    // Sums of sums know no shares, so the values are multiplied first; the bits are those of the tree.
    const std::array<const float*, 1> mine{buffers_.result.data()};
    reduce_tree(mine, std::array{share(view_.rank)}, ReduceOp::kMean, call_.count, std::array{buffers_.result.data()});
    shares_.clear();
    place.contributes.clear();
  }
  if (place.rank < 0 || place.size == 1) return;
  switch (call_.kind) {
    case CallKind::kAllReduce:
      if (ring) {
        // What may lie unread grows with the square of P; shorter segments make that P.
        place.segment = kSegment * 8 / static_cast<std::size_t>(std::max(8, place.size));
        steps_ = ring_all_reduce(place, call_.count);
      } else {
        steps_ = direct_all_reduce(place, call_.count);
      }
      break;
    case CallKind::kReduceScatter:
      steps_ = direct_reduce_scatter(place, call_.count);
      break;
    case CallKind::kAllGather:
      steps_ = direct_all_gather(place, call_.count);
      break;
    case CallKind::kBroadcast:
      steps_ = tree_broadcast(place, call_.root, call_.count);
      break;
    case CallKind::kBarrier:
      break;
  }
  for (Step& step : steps_) {
    step.peer = parts_[static_cast<std::size_t>(step.peer)];
    if (is_send(step)) bytes_to_send_[static_cast<std::size_t>(step.peer)] += step.count * dtype_bytes(call_.wire);
  }
}

bool GroupCall::send(const Step& step) {
  const bool input = step.kind == Step::Kind::kSendInput;
  const float* values = input ? buffers_.input.data() + step.input : buffers_.result.data() + step.result;
  const auto peer = static_cast<std::size_t>(step.peer);
  const MessageHead head{.kind = MessageKind::kValues, .wire = call_.wire, .step = sent_to_[peer]};
  std::span<const std::byte> body = std::as_bytes(std::span(values, step.count));
  if (rounds()) {
    packed_.resize(step.count);
    if (input) {
      rounded_.resize(step.count);
      round_bf16(values, share(view_.rank), step.count, rounded_.data());
      values = rounded_.data();
    }
    pack(values, step.count, packed_.data());
    body = std::as_bytes(std::span<const std::uint16_t>(packed_));
  }
  const bool lends = !rounds() && bytes_to_send_[peer] >= kCopiedBytes + body.size();
  if (!(lends ? try_lend(step.peer, head, body) : try_send(step.peer, head, body))) return false;
  bytes_to_send_[peer] -= body.size();
  ++sent_to_[peer];
  return true;
}

Result<std::optional<Arrived>> GroupCall::next_values(const Step& step) {
  const auto peer = static_cast<std::size_t>(step.peer);
  if (values_[peer].empty()) return std::optional<Arrived>{};
  Arrived arrived = std::move(values_[peer].front());
  values_[peer].pop_front();
  inbox_.release(arrived);
  const std::size_t bytes = step.count * dtype_bytes(call_.wire);
  if (arrived.head.wire != call_.wire || arrived.head.step != received_[peer] || arrived.payload.size() != bytes) {
    return Error{
        Code::kCorrupt,
        fmt::format("collective: message {} of rank {} for {} has {} bytes, expected message {} of {} bytes",
                    arrived.head.step, step.peer, call_.describe(), arrived.payload.size(), received_[peer], bytes)};
  }
  ++received_[peer];
  return std::optional<Arrived>(std::move(arrived));
}

const float* GroupCall::floats(const Arrived& arrived, std::size_t begin, std::size_t count,
                               std::vector<float>& scratch) const {
  const std::byte* bytes = arrived.payload.data() + begin * dtype_bytes(call_.wire);
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % alignof(float) == 0;
  if (!rounds() && aligned) return reinterpret_cast<const float*>(bytes);
  scratch.resize(std::max(scratch.size(), count));
  if (!rounds()) {
    std::memcpy(scratch.data(), bytes, count * sizeof(float));
  } else {
    std::array<std::uint16_t, 1024> packed;
    for (std::size_t i = 0; i < count; i += packed.size()) {
      const std::size_t some = std::min(packed.size(), count - i);
      std::memcpy(packed.data(), bytes + i * 2, some * 2);
      unpack(packed.data(), some, scratch.data() + i);
    }
  }
  return scratch.data();
}

Result<GroupCall::Progress> GroupCall::do_step(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kSendInput:
    case Step::Kind::kSendResult:
      return send(step) ? Progress::kDone : Progress::kBlocked;
    case Step::Kind::kReduce:
      return reduce_step(step);
    case Step::Kind::kReceive:
    case Step::Kind::kAdd: {
      TROUPE_ASSIGN(const std::optional<Arrived> arrived, next_values(step));
      if (!arrived) return Progress::kBlocked;
      float* result = buffers_.result.data() + step.result;
      const float* values = floats(*arrived, 0, step.count, rounded_);
      if (step.kind == Step::Kind::kReceive) {
        std::copy_n(values, step.count, result);
      } else {
        const ReduceOp op = call_.op == ReduceOp::kMean ? ReduceOp::kSum : call_.op;
        const std::array<const float*, 2> inputs{values, result};
        reduce_tree(inputs, {}, op, step.count, std::array{result});
      }
      return Progress::kDone;
    }
  }
  return Progress::kDone;
}

bool GroupCall::owes(int rank) const { return rank != view_.rank && share(rank) != 0; }

Result<GroupCall::Progress> GroupCall::reduce_step(const Step& step) {
  for (const int rank : parts_) {
    if (owes(rank) && values_[static_cast<std::size_t>(rank)].empty()) return Progress::kBlocked;
  }
  std::vector<std::optional<Arrived>> arrived(parts_.size());
  std::vector<float> shares;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (!shares_.empty() && !rounds()) shares.push_back(share(parts_[part]));
    if (!owes(parts_[part])) continue;
    TROUPE_ASSIGN(arrived[part], next_values({Step::Kind::kReceive, parts_[part], 0, 0, step.count}));
  }
  const float* mine = buffers_.input.data() + step.input;
  float* result = buffers_.result.data() + step.result;
  std::vector<std::vector<float>> scratch(parts_.size());
  std::vector<const float*> inputs(parts_.size());
  for (std::size_t begin = 0; begin < step.count; begin += kBlock) {
    const std::size_t count = std::min(kBlock, step.count - begin);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (arrived[part]) {
        inputs[part] = floats(*arrived[part], begin, count, scratch[part]);
      } else if (rounds()) {  // this rank, and those without values
        scratch[part].resize(kBlock);
        round_bf16(mine + begin, share(parts_[part]), count, scratch[part].data());
        inputs[part] = scratch[part].data();
      } else {
        inputs[part] = mine + begin;  // of a rank whose share is 0 it is not read
      }
    }
    float* const output = result + begin;
    const ReduceOp op = call_.op == ReduceOp::kMean && shares.empty() ? ReduceOp::kSum : call_.op;
    reduce_tree(inputs, shares, op, count, std::array{output});
    if (rounds()) round_bf16(output, 1, count, output);
  }
  return Progress::kDone;
}

std::vector<int> GroupCall::awaited() const {
  std::vector<int> ranks;
  if (is_local()) {
    for (const int rank : context_.hosts.own) {
      if (rank != view_.rank) ranks.push_back(rank);
    }
    return ranks;
  }
  if (level_ < levels_.size()) {
    for (std::size_t rank = 0; rank < known_.size(); ++rank) {
      if (!known_[rank]) ranks.push_back(static_cast<int>(rank));
    }
  } else if (step_ < steps_.size()) {
    const Step& step = steps_[step_];
    if (step.kind != Step::Kind::kReduce) return {step.peer};
    for (const int rank : parts_) {
      if (owes(rank) && values_[static_cast<std::size_t>(rank)].empty()) ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace troupe::collectives::detail
