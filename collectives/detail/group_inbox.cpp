#include <troupe/collectives/detail/group_inbox.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::collectives::detail {

GroupInbox::GroupInbox(Peers& peers, std::uint32_t own_id, const Activity& activity, CooperativeScheduler* scheduler)
    : peers_(peers), own_id_(own_id), activity_(activity), scheduler_(scheduler) {
  view_.size = 0;
  peers_.deliver_to([this](PeerMessage message) { deliver(std::move(message)); });
}

void GroupInbox::close() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    view_.size = 0;
    view_.members.clear();
  }
  peers_.deliver_to(nullptr);
}

std::optional<Error> GroupInbox::open(const GroupView& view, std::function<void(const FailedNote&)> on_failure) {
  const std::lock_guard lock(mutex_);
  const auto size = static_cast<std::size_t>(view.size);
  view_ = view;
  on_failure_ = std::move(on_failure);
  hellos_.clear();
  ticket_.reset();
  locals_.assign(size, std::nullopt);
  unread_.clear();
  unread_bytes_.assign(size, 0);
  heard_.assign(size, Heard{.at = now()});
  formed_ = false;
  calls_ = 0;
  failed_.reset();
  if (const auto known = newer_.find(view.epoch); known != newer_.end()) {
    hellos_ = std::move(known->second.hellos);
    if (known->second.failed) note_failure(*known->second.failed);
  }
  newer_.erase(newer_.begin(), newer_.upper_bound(view.epoch));
  if (!aborted_ || view.epoch > aborted_->first) return std::nullopt;
  note_failure({0, {Code::kCancelled, fmt::format("collective: rank {} aborted: {}", view.rank, aborted_->second)}});
  return failed_->error;
}

void GroupInbox::formed() {
  const std::lock_guard lock(mutex_);
  formed_ = true;
}

std::vector<std::optional<Hello>> GroupInbox::hellos() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::optional<Hello>> by_rank(static_cast<std::size_t>(view_.size));
  for (const auto& [member, hello] : hellos_) {
    if (const auto rank = rank_of(member)) by_rank[static_cast<std::size_t>(*rank)] = hello;
  }
  return by_rank;
}

std::vector<std::uint32_t> GroupInbox::strangers() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> members;
  for (const auto& [member, hello] : hellos_) {
    if (!rank_of(member)) members.push_back(member);
  }
  return members;
}

std::optional<std::string> GroupInbox::ticket() const {
  const std::lock_guard lock(mutex_);
  return ticket_;
}

std::vector<std::optional<std::string>> GroupInbox::locals() const {
  const std::lock_guard lock(mutex_);
  return locals_;
}

std::vector<Arrived> GroupInbox::take() {
  const std::lock_guard lock(mutex_);
  news_ = false;
  return std::exchange(unread_, {});
}

void GroupInbox::release(const Arrived& arrived) {
  const std::lock_guard lock(mutex_);
  if (arrived.head.epoch != view_.epoch) return;
  unread_bytes_[static_cast<std::size_t>(arrived.rank)] -= arrived.payload.size();
}

void GroupInbox::wait(SteadyTime until) {
  if (scheduler_ != nullptr) {
    const auto has_news = [this] {
      const std::lock_guard lock(mutex_);
      return news_;
    };
    if (scheduler_->yield_until(has_news, until - now()) || now() >= until) return;
    return fail({Code::kCancelled, "collective: the run ends"});
  }
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return news_; });
}

void GroupInbox::enter_call() {
  const std::lock_guard lock(mutex_);
  ++calls_;
}

void GroupInbox::ask(int rank, std::uint64_t index) {
  // Whoever cannot be asked does not answer.
  (void)send(rank, {.kind = MessageKind::kAsk, .index = index}, {});
}

Heard GroupInbox::heard(int rank) const {
  const std::lock_guard lock(mutex_);
  return heard_[static_cast<std::size_t>(rank)];
}

Status GroupInbox::send(int rank, MessageHead head, std::span<const std::byte> body) {
  // view_ changes only in open(), which the same thread calls.
  head.epoch = view_.epoch;
  return peers_.send(view_.members[static_cast<std::size_t>(rank)].id, std::as_bytes(std::span(&head, 1)), body);
}

Status GroupInbox::lend(int rank, MessageHead head, std::shared_ptr<const LentBytes> body) {
  head.epoch = view_.epoch;
  return peers_.lend(view_.members[static_cast<std::size_t>(rank)].id, std::as_bytes(std::span(&head, 1)),
                     std::move(body));
}

bool GroupInbox::note_failure(const FailedNote& note) {
  news_ = true;
  changed_.notify_all();
  if (failed_ && failed_->from <= note.from) return false;
  failed_ = FailedNote{note.from, failed_ ? failed_->error : note.error};
  if (on_failure_) on_failure_(*failed_);
  return true;
}

void GroupInbox::tell_all(const FailedNote& note, const GroupView& view) {
  const MessageHead head{.kind = MessageKind::kFailed, .epoch = view.epoch};
  const std::vector<std::byte> body = write_failed(note);
  for (const Member& member : view.members) {
    // A member that cannot be told learns it from its own chief.
    if (member.id != own_id_) (void)peers_.send(member.id, std::as_bytes(std::span(&head, 1)), body);
  }
}

void GroupInbox::fail(const Error& error, std::optional<std::uint64_t> from, std::optional<std::uint64_t> epoch) {
  FailedNote note{0, error};
  GroupView view;
  {
    const std::lock_guard lock(mutex_);
    if (view_.epoch != epoch.value_or(view_.epoch)) return;
    if (formed_) note.from = from.value_or(0) + 1;
    if (view_.size == 0 || !note_failure(note)) return;
    note.error = failed_->error;
    view = view_;
  }
  tell_all(note, view);
}

void GroupInbox::abort(std::string_view reason, std::optional<std::uint64_t> through) {
  Error error;
  std::uint64_t epoch = 0;
  {
    const std::lock_guard lock(mutex_);
    if (through && (!aborted_ || aborted_->first < *through)) aborted_.emplace(*through, reason);
    if (view_.size == 0 || view_.epoch > through.value_or(view_.epoch)) return;
    error = {Code::kCancelled, fmt::format("collective: rank {} aborted: {}", view_.rank, reason)};
    epoch = view_.epoch;
  }
  fail(error, std::nullopt, epoch);
}

std::optional<Error> GroupInbox::failure(std::optional<std::uint64_t> index) const {
  const std::lock_guard lock(mutex_);
  if (!failed_ || (index ? *index + 1 : 0) < failed_->from) return std::nullopt;
  return failed_->error;
}

std::optional<int> GroupInbox::rank_of(std::uint32_t member) const {
  for (std::size_t rank = 0; rank < view_.members.size(); ++rank) {
    if (view_.members[rank].id == member) return static_cast<int>(rank);
  }
  return std::nullopt;
}

void GroupInbox::deliver(PeerMessage message) {
  const auto parsed = parse(message.bytes);
  if (!parsed) {
    fail({Code::kCorrupt, fmt::format("collective: member {} sent {} bytes that are no message of a group",
                                      message.from, message.bytes.size())});
    return;
  }
  if (parsed->head.kind == MessageKind::kAsk) {
    answer(message.from, parsed->head);
    return;
  }
  std::optional<Error> broken;
  std::optional<FailedNote> relayed;
  GroupView view;
  {
    const std::lock_guard lock(mutex_);
    if (view_.size > 0 && parsed->head.epoch < view_.epoch) return;
    if (view_.size > 0 && parsed->head.epoch == view_.epoch) {
      if (deliver_here(message, *parsed)) {
        relayed = failed_;
        view = view_;
      }
      if (const auto rank = rank_of(message.from)) {
        const auto r = static_cast<std::size_t>(*rank);
        if (unread_bytes_[r] > kMaxUnreadBytes) {
          broken = {Code::kInternal, fmt::format("collective: rank {} has {} MiB unread of rank {}, at most {} fit",
                                                 view_.rank, unread_bytes_[r] >> 20, *rank, kMaxUnreadBytes >> 20)};
          view.epoch = view_.epoch;
        }
      }
    } else if (parsed->head.kind == MessageKind::kHello || parsed->head.kind == MessageKind::kFailed) {
      Newer& newer = newer_[parsed->head.epoch];
      Reader reader(parsed->payload);
      if (parsed->head.kind == MessageKind::kHello) {
        newer.hellos[message.from] = reader.get<Hello>();
      } else if (auto note = read_failed(parsed->payload); note && !newer.failed) {
        newer.failed = std::move(note);
      }
      if (newer_.size() > kMaxNewer) newer_.erase(newer_.begin());
    }
  }
  if (relayed) tell_all(*relayed, view);
  if (broken) fail(*broken, std::nullopt, view.epoch);
}

bool GroupInbox::deliver_here(PeerMessage& message, const ParsedMessage& parsed) {
  const auto rank = rank_of(message.from);
  if (rank) heard_[static_cast<std::size_t>(*rank)].at = now();
  news_ = true;
  changed_.notify_all();
  switch (parsed.head.kind) {
    case MessageKind::kHello: {
      Reader reader(parsed.payload);
      hellos_[message.from] = reader.get<Hello>();
      return false;
    }
    case MessageKind::kFailed:
      if (const auto note = read_failed(parsed.payload)) return note_failure(*note);
      return false;
    case MessageKind::kAnswer:
      if (!rank) return false;
      if (auto note = read_answer(parsed.payload)) {
        Heard& heard = heard_[static_cast<std::size_t>(*rank)];
        heard.answer = std::move(note);
        heard.answered_at = heard.at;
        heard.answered_index = parsed.head.index;
      }
      return false;
    case MessageKind::kTicket:
    case MessageKind::kLocal: {
      if (!rank) return false;
      Reader reader(parsed.payload);
      const std::string text = reader.text();
      if (parsed.head.kind == MessageKind::kTicket) {
        ticket_ = text;
        return false;
      }
      locals_[static_cast<std::size_t>(*rank)] = text;
      const auto host = [&](int of) { return view_.members[static_cast<std::size_t>(of)].host; };
      if (!text.empty() && host(*rank) == host(view_.rank) && on_failure_) {
        on_failure_({0, {Code::kUnavailable, text}});
      }
      return false;
    }
    case MessageKind::kHeads:
    case MessageKind::kValues:
      // After a failure nobody reads any more.
      if (!rank || (failed_ && parsed.head.index + 1 >= failed_->from)) return false;
      unread_bytes_[static_cast<std::size_t>(*rank)] += parsed.payload.size();
      unread_.push_back({*rank, parsed.head, parsed.payload, std::move(message.owner)});
      return false;
    case MessageKind::kAsk:
      return false;
  }
  return false;
}

void GroupInbox::answer(std::uint32_t member, const MessageHead& question) {
  AnswerNote note;
  {
    const std::lock_guard lock(mutex_);
    note.entered = view_.size > 0 && question.epoch == view_.epoch &&
                   (question.index == MessageHead::kNoCall || question.index < calls_);
  }
  const Activity::Now now = activity_.now();
  note.step = now.step;
  note.since_ns = now.since.count();
  note.what = now.what;
  const MessageHead head{.kind = MessageKind::kAnswer, .epoch = question.epoch, .index = question.index};
  (void)peers_.send(member, std::as_bytes(std::span(&head, 1)), write_answer(note));
}

}  // namespace troupe::collectives::detail
