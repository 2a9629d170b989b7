#include <troupe/actors/roles/frame_queue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace troupe::actors {

Result<Progress> FrameQueue::step(RoleContext& context) {
  bool any = false;
  Inlet& inlet = context.in("in");
  while (!inlet.empty() && static_cast<std::int64_t>(waiting_.size()) < options_.capacity) {
    Frame frame = inlet.take();
    double priority = 0;
    if (options_.order == QueueOrder::kPriority) {
      auto known = options_.priority(frame);
      if (known.ok() && std::isnan(*known)) known = Error{Code::kInvalidArgument, "a priority that is no number"};
      if (!known.ok()) {
        context.refuse("in", known.error());
        continue;
      }
      priority = *known;
    }
    put(std::move(frame), priority);
    any = true;
  }
  Outlet& outlet = context.out("out");
  while (static_cast<std::int64_t>(waiting_.size()) > options_.min_after_dequeue && outlet.ready()) {
    outlet.send(next());
    any = true;
  }
  return any ? Progress::kMore : Progress::kIdle;
}

bool FrameQueue::later(const Waiting& a, const Waiting& b) const {
  switch (options_.order) {
    case QueueOrder::kLifo:
      return a.number < b.number;
    case QueueOrder::kPriority:
      if (a.priority != b.priority) return a.priority > b.priority;
      [[fallthrough]];
    default:
      return a.number > b.number;
  }
}

void FrameQueue::put(Frame frame, double priority) {
  waiting_.push_back({priority, taken_++, std::move(frame)});
  if (options_.order == QueueOrder::kShuffle) return;
  std::ranges::push_heap(waiting_, [this](const Waiting& a, const Waiting& b) { return later(a, b); });
}

Frame FrameQueue::next() {
  if (options_.order == QueueOrder::kShuffle) {
    std::swap(waiting_[rng_.below(waiting_.size())], waiting_.back());
  } else {
    std::ranges::pop_heap(waiting_, [this](const Waiting& a, const Waiting& b) { return later(a, b); });
  }
  Frame frame = std::move(waiting_.back().frame);
  waiting_.pop_back();
  ++given_;
  return frame;
}

std::string FrameQueue::waiting_for() const {
  const auto held = static_cast<std::int64_t>(waiting_.size());
  if (held > options_.min_after_dequeue || held == 0) return {};
  return fmt::format("{} more frames (min_after_dequeue {})", options_.min_after_dequeue + 1 - held,
                     options_.min_after_dequeue);
}

void FrameQueue::report(Report& report) const {
  report.counters.push_back({"enqueued", static_cast<double>(taken_)});
  report.counters.push_back({"dequeued", static_cast<double>(given_)});
  report.sums.push_back({"size", static_cast<double>(waiting_.size())});
}

Result<RoleState> FrameQueue::save() const {
  RoleState state;
  state.counters = {{"enqueued", taken_}, {"dequeued", given_}};
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Waiting& waiting = waiting_[i];
    state.counters.push_back({fmt::format("number_{}", i), waiting.number});
    state.counters.push_back({fmt::format("priority_bits_{}", i), std::bit_cast<std::int64_t>(waiting.priority)});
    state.chunks.emplace_back(waiting.frame.bytes().begin(), waiting.frame.bytes().end());
  }
  const auto words = rng_.state();
  for (std::size_t i = 0; i < words.size(); ++i) {
    state.counters.push_back({fmt::format("random_{}", i), std::bit_cast<std::int64_t>(words[i])});
  }
  return state;
}

Status FrameQueue::restore(const RoleState& state) {
  TROUPE_ASSIGN(taken_, state.counter("enqueued"));
  TROUPE_ASSIGN(given_, state.counter("dequeued"));
  for (std::size_t i = 0; i < state.chunks.size(); ++i) {
    Waiting waiting;
    TROUPE_ASSIGN(waiting.number, state.counter(fmt::format("number_{}", i)));
    TROUPE_ASSIGN(const std::int64_t bits, state.counter(fmt::format("priority_bits_{}", i)));
    waiting.priority = std::bit_cast<double>(bits);
    TROUPE_ASSIGN(waiting.frame, restored_.copy(state.chunks[i]));
    waiting_.push_back(std::move(waiting));
  }
  auto words = rng_.state();
  for (std::size_t i = 0; i < words.size(); ++i) {
    TROUPE_ASSIGN(const std::int64_t word, state.counter(fmt::format("random_{}", i)));
    words[i] = std::bit_cast<std::uint64_t>(word);
  }
  rng_.set_state(words);
  return {};
}

}  // namespace troupe::actors
