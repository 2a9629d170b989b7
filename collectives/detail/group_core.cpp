#include <troupe/collectives/detail/group_core.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include <troupe/collectives/shared_memory.hpp>
#include <troupe/core/log.hpp>

namespace troupe::collectives::detail {
namespace {

constexpr Duration kAskAfter = std::chrono::seconds(1);             // the missing ranks, and again
constexpr Duration kAskEvery = std::chrono::milliseconds(500);      // so often
constexpr Duration kAnswerTime = std::chrono::milliseconds(500);    // for the first answer, on a busy machine
constexpr Duration kSilence = std::chrono::seconds(1);              // without a sign of life, though asked
constexpr Duration kDisagreement = std::chrono::milliseconds(500);  // for the ranks that have not spoken to speak
constexpr Duration kRetry = std::chrono::milliseconds(2);           // after a peer's queue was full

/// "rank 1, 3 of 4": those of a group's ranks.
std::string some_ranks(const std::vector<int>& ranks, int size) {
  return fmt::format("rank {} of {}", fmt::join(ranks, ", "), size);
}

}  // namespace

GroupCore::GroupCore(Peers& peers, std::uint32_t own_id, bool deterministic, CooperativeScheduler* scheduler)
    : own_id_(own_id),
      deterministic_(deterministic),
      local_(
          make_shared_memory_communicator([this](const GroupView& host, std::string mine,
                                                 SteadyTime deadline) { return exchange_ticket(host, mine, deadline); },
                                          &activity_)),
      inbox_(peers, own_id, activity_, scheduler) {
  view_.size = 0;
}

void GroupCore::abort(std::string_view reason, std::optional<std::uint64_t> through) {
  if (in_local_ == kAlways) local_->abort(reason, through);  // which names this rank, and tells all
  inbox_.abort(reason, through);
}

void GroupCore::end_local(const FailedNote& note, std::uint64_t epoch) {
  if (note.from <= in_local_) local_->abort(note.error.message, epoch);
}

Status GroupCore::reform(const GroupView& view, Duration timeout) {
  const SteadyTime deadline = inbox_.now() + timeout;
  if (view_.size > 0 && view.epoch <= view_.epoch) {
    return Error{Code::kInvalidArgument, fmt::format("reform: epoch {} is not newer than {}", view.epoch, view_.epoch)};
  }
  TROUPE_TRY(check_view(view));
  std::set<std::uint32_t> ids;
  for (const Member& member : view.members) ids.insert(member.id);
  const auto size = static_cast<std::size_t>(view.size);
  if (view.members.size() != size || ids.size() != size ||
      view.members[static_cast<std::size_t>(view.rank)].id != own_id_) {
    return Error{Code::kInvalidArgument,
                 fmt::format("group of epoch {}: {} members with {} ids, expected {} and at rank {} id {}", view.epoch,
                             view.members.size(), ids.size(), view.size, view.rank, own_id_)};
  }
  if (all_local()) local_->abort(fmt::format("left epoch {}", view_.epoch));
  leave();
  view_ = view;
  calls_ = 0;
  early_.clear();
  context_.reset();
  in_local_ = 0;
  const auto on_failure = [this, epoch = view.epoch](const FailedNote& note) { end_local(note, epoch); };
  if (auto aborted = inbox_.open(view, on_failure)) return *aborted;
  Status formed = await_members(deadline);
  if (formed.ok()) formed = form_hosts(deadline);
  if (formed.ok()) {
    inbox_.formed();
  } else {
    inbox_.fail(formed.error());
  }
  return formed;
}

std::optional<Error> GroupCore::failure() const {
  if (view_.size == 0) return std::nullopt;
  if (const auto* local = all_local()) return local->failure();
  return context_ ? inbox_.failure(calls_) : inbox_.failure();
}

Status GroupCore::await_members(SteadyTime deadline) {
  const Hello mine{static_cast<std::uint32_t>(view_.rank), static_cast<std::uint32_t>(view_.size), digest(view_)};
  const MessageHead head{.kind = MessageKind::kHello, .index = MessageHead::kNoCall};
  std::vector<bool> told(static_cast<std::size_t>(view_.size));
  told[static_cast<std::size_t>(view_.rank)] = true;
  for (;;) {
    for (Arrived& arrived : inbox_.take()) early_.push_back(std::move(arrived));  // of ranks that are in already
    std::vector<int> missing;
    const auto hellos = inbox_.hellos();
    bool all_told = true;
    for (int rank = 0; rank < view_.size; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (!told[r]) told[r] = inbox_.send(rank, head, std::as_bytes(std::span(&mine, 1))).ok();
      all_told = all_told && told[r];
      if (rank != view_.rank && !hellos[r]) missing.push_back(rank);
    }
    TROUPE_TRY(check_hellos());
    if (missing.empty() && all_told) return {};  // though a faster rank may have broken it since
    if (const auto failure = inbox_.failure()) return *failure;
    const SteadyTime now = inbox_.now();
    if (now >= deadline) {
      std::vector<int> absent = missing;
      for (int rank = 0; rank < view_.size; ++rank) {
        if (!told[static_cast<std::size_t>(rank)] && absent.empty()) absent.push_back(rank);
      }
      return Error{Code::kDeadlineExceeded,
                   fmt::format("group of epoch {}: {} did not come", view_.epoch, some_ranks(absent, view_.size))};
    }
    inbox_.wait(std::min(deadline, all_told ? deadline : now + kRetry));
  }
}

Result<std::string> GroupCore::exchange_ticket(const GroupView& host, const std::string& mine, SteadyTime deadline) {
  if (host.rank == 0) {
    Writer text;
    text.text(mine);
    for (const int rank : hosts_.own) {
      if (rank != view_.rank) TROUPE_TRY(inbox_.send(rank, {.kind = MessageKind::kTicket}, text.written()));
    }
    return mine;
  }
  for (;;) {
    for (Arrived& arrived : inbox_.take()) early_.push_back(std::move(arrived));
    if (auto ticket = inbox_.ticket()) return *ticket;
    if (const auto failure = inbox_.failure()) return *failure;
    for (const auto& local : inbox_.locals()) {
      if (local && !local->empty()) return Error{Code::kUnavailable, *local};
    }
    if (inbox_.now() >= deadline) {
      return Error{Code::kDeadlineExceeded,
                   fmt::format("group of epoch {}: no word from rank {} about the memory of this "
                               "host",
                               view_.epoch, hosts_.own.front())};
    }
    inbox_.wait(deadline);
  }
}

Status GroupCore::form_hosts(SteadyTime deadline) {
  const std::vector<bool> everybody(static_cast<std::size_t>(view_.size), true);
  hosts_ = group_hosts(view_, everybody);
  if (static_cast<int>(hosts_.speakers.size()) < view_.size) {
    std::string why;
    if (hosts_.is_shared()) {
      const Status met = local_->reform(view_of_ranks(view_, hosts_.own), deadline - inbox_.now());
      if (const auto failure = inbox_.failure()) return *failure;
      if (!met.ok()) {
        why = met.error().message;
        log::warn("group of epoch {}: rank {} shares no memory with its host's ranks and uses links: {}", view_.epoch,
                  view_.rank, why);
      }
    }
    Writer text;
    text.text(why);
    std::vector<bool> told(static_cast<std::size_t>(view_.size));
    told[static_cast<std::size_t>(view_.rank)] = true;
    std::vector<bool> shares(static_cast<std::size_t>(view_.size));
    for (;;) {
      for (Arrived& arrived : inbox_.take()) early_.push_back(std::move(arrived));
      const auto locals = inbox_.locals();
      bool all_told = true;
      std::vector<int> missing;
      for (int rank = 0; rank < view_.size; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        if (!told[r]) told[r] = inbox_.send(rank, {.kind = MessageKind::kLocal}, text.written()).ok();
        all_told = all_told && told[r];
        shares[r] = rank == view_.rank ? why.empty() : locals[r] && locals[r]->empty();
        if (rank != view_.rank && !locals[r]) missing.push_back(rank);
      }
      if (missing.empty() && all_told) break;
      if (const auto failure = inbox_.failure()) return *failure;
      const SteadyTime now = inbox_.now();
      if (now >= deadline) {
        return Error{Code::kDeadlineExceeded,
                     fmt::format("group of epoch {}: {} did not say whether memory is shared on its host", view_.epoch,
                                 some_ranks(missing, view_.size))};
      }
      inbox_.wait(std::min(deadline, all_told ? deadline : now + kRetry));
    }
    hosts_ = group_hosts(view_, shares);
  }
  if (hosts_.all_shared(view_.size) && view_.size > 1) in_local_ = kAlways;
  context_.emplace(GroupContext{.inbox = inbox_,
                                .view = view_,
                                .hosts = hosts_,
                                .local = local_.get(),
                                .in_local = in_local_,
                                .deterministic = deterministic_});
  return {};
}

Status GroupCore::check_hellos() const {
  const auto disagree = [&](const std::string& who, const std::string& says) {
    return Error{Code::kShapeMismatch, fmt::format("group of epoch {}: {} says that it {}, rank {} says {}",
                                                   view_.epoch, who, says, view_.rank, view_.size)};
  };
  const auto hellos = inbox_.hellos();
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    if (!hellos[rank]) continue;
    const Hello& hello = *hellos[rank];
    if (hello.size != hellos.size()) {
      return disagree(fmt::format("rank {}", hello.rank), fmt::format("has {} ranks", hello.size));
    }
    if (hello.rank != rank || hello.digest != digest(view_)) {
      return Error{Code::kShapeMismatch,
                   fmt::format("group of epoch {}: rank {} and rank {} disagree about who its {} members are",
                               view_.epoch, view_.rank, hello.rank, view_.size)};
    }
  }
  for (const std::uint32_t member : inbox_.strangers()) {
    return Error{Code::kShapeMismatch,
                 fmt::format("group of epoch {}: member {} says that it belongs to it, rank {} says that it does not",
                             view_.epoch, member, view_.rank)};
  }
  return {};
}

void GroupCore::leave() {
  if (view_.size == 0) return;
  const std::uint64_t from = under_way_.empty() ? calls_ : under_way_.front()->call->place().index;
  inbox_.fail({Code::kCancelled, fmt::format("collective: rank {} has left epoch {}", view_.rank, view_.epoch)}, from);
  for (const auto& pending : under_way_) {
    pending->answer = *inbox_.failure(pending->call->place().index);
    pending->call->end();
  }
  under_way_.clear();
}

void GroupCore::close() {
  leave();
  inbox_.close();
  context_.reset();
  local_.reset();
}

Result<std::shared_ptr<PendingCall>> GroupCore::make(Call call, const CallOptions& options, CallBuffers buffers) {
  if (view_.size == 0) return no_group_yet(call);
  if (!context_) {
    if (const auto failure = inbox_.failure()) return *failure;
    return no_group_yet(call);
  }
  if (const Status status = check_arguments(call, options, view_, buffers.input.size(), buffers.result.size());
      !status.ok()) {
    inbox_.fail(status.error());
    return status.error();
  }
  if (const auto failure = inbox_.failure(calls_)) return *failure;
  if (unanswered_ == Communicator::kMaxPending) {
    return Error{Code::kUnavailable, fmt::format("collective: rank {} has {} unfinished calls already, and calls {}",
                                                 view_.rank, unanswered_, call.describe())};
  }
  const CallPlace place{view_.epoch, calls_++};
  inbox_.enter_call();
  const SteadyTime now = inbox_.now();
  auto pending = std::make_shared<PendingCall>(
      PendingCall{.call = std::make_unique<GroupCall>(*context_, place, std::move(call), options.weight,
                                                      now + options.timeout, buffers),
                  .made = now,
                  .deadline = now + options.timeout,
                  .ask_at = now + std::min(kAskAfter, options.timeout / 2)});
  ++unanswered_;
  under_way_.push_back(pending);
  const auto ours = std::stable_partition(early_.begin(), early_.end(),
                                          [&](const Arrived& arrived) { return arrived.head.index != place.index; });
  for (auto arrived = ours; arrived != early_.end(); ++arrived) pending->call->take(std::move(*arrived));
  early_.erase(ours, early_.end());
  progress();
  return pending;
}

void GroupCore::progress() {
  for (Arrived& arrived : inbox_.take()) {
    const auto call = std::find_if(under_way_.begin(), under_way_.end(), [&](const auto& pending) {
      return pending->call->place().index == arrived.head.index;
    });
    if (call != under_way_.end()) {
      (*call)->call->take(std::move(arrived));
    } else if (arrived.head.index >= calls_) {
      early_.push_back(std::move(arrived));
    } else {
      inbox_.release(arrived);
    }
  }
  const bool hierarchical = context_ && static_cast<int>(hosts_.speakers.size()) < view_.size;
  const std::size_t most = hierarchical ? 1 : kMaxActive;
  std::size_t active = 0;
  for (std::size_t i = 0; i < under_way_.size() && active < most;) {
    PendingCall& pending = *under_way_[i];
    const std::uint64_t index = pending.call->place().index;
    if (!inbox_.failure(index)) {
      if (const Status status = pending.call->advance(); !status.ok()) inbox_.fail(status.error());
    }
    if (pending.call->complete()) {
      pending.answer = Status{};
    } else if (const auto failure = inbox_.failure(index)) {
      pending.answer = Status{*failure};
      pending.call->end();
    } else {
      ++active;
      ++i;
      continue;
    }
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void GroupCore::check(PendingCall& pending, SteadyTime now) {
  if (pending.answer) return;
  if (!pending.disagreed && !pending.call->disagreement().ok()) pending.disagreed = now;
  if (pending.disagreed && now >= *pending.disagreed + kDisagreement) {
    inbox_.fail(pending.call->disagreement().error());
  } else if (now >= pending.deadline) {
    PendingCall& blocker = *under_way_.front();
    ask(blocker, now, true);
    if (knows_whom_to_blame(blocker, now)) inbox_.fail({Code::kDeadlineExceeded, late(blocker, now)});
  }
  if (const auto failure = inbox_.failure(pending.call->place().index)) {
    pending.answer = Status{*failure};
    pending.call->end();
    std::erase_if(under_way_, [&](const auto& other) { return other.get() == &pending; });
  }
}

void GroupCore::ask(PendingCall& pending, SteadyTime now, bool at_once) {
  if (!at_once && now < pending.ask_at && now < pending.deadline) return;
  if (pending.asked && now < *pending.asked + kAskEvery) return;
  for (const int rank : pending.call->awaited()) inbox_.ask(rank, pending.call->place().index);
  if (!pending.first_asked) pending.first_asked = now;
  pending.asked = now;
}

bool GroupCore::knows_whom_to_blame(const PendingCall& pending, SteadyTime now) const {
  if (!pending.first_asked) return false;
  if (now >= *pending.first_asked + kAnswerTime) return true;
  const auto ranks = pending.call->awaited();
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    const Heard heard = inbox_.heard(rank);
    return heard.answer && heard.answered_index == pending.call->place().index;
  });
}

SteadyTime GroupCore::watch(const PendingCall& pending, SteadyTime now) {
  // Works advance in order, so the first is what is waited for.
  PendingCall& first = *under_way_.front();
  ask(first, now);
  SteadyTime wake = first.asked ? *first.asked + kAskEvery : first.ask_at;
  if (now < pending.deadline) wake = std::min(wake, pending.deadline);
  if (!first.verdict_logged) {
    if (now < first.made + kVerdictAfter) {
      wake = std::min(wake, first.made + kVerdictAfter);
    } else if (knows_whom_to_blame(first, now)) {
      if (const auto blamed = missing(first, now); !blamed.empty()) {
        log::warn("{}", verdict(activity_.now().step, view_, first.call->call(), blamed));
        first.verdict_logged = true;
      }
    }
  }
  if (first.call->unsent()) wake = std::min(wake, now + kRetry);
  if (pending.disagreed) wake = std::min(wake, *pending.disagreed + kDisagreement);
  return wake;
}

std::vector<MissingRank> GroupCore::missing(const PendingCall& pending, SteadyTime now) const {
  std::vector<MissingRank> ranks;
  for (const int rank : pending.call->awaited()) {
    const Heard heard = inbox_.heard(rank);
    const bool answered = heard.answer && heard.answered_index == pending.call->place().index;
    const Duration silent = now - std::max(heard.at, pending.made);
    // Values come from it, and its answer will behind them.
    if (!answered && silent < kAnswerTime) continue;
    if (!answered || now - heard.at > kSilence + kAskEvery) {
      ranks.push_back({.rank = rank,
                       .has_entered = pending.call->has_come(rank) || (answered && heard.answer->entered),
                       .silent = silent});
    } else if (!heard.answer->entered) {
      const Duration since = Duration(heard.answer->since_ns) + (now - heard.answered_at);
      ranks.push_back({.rank = rank, .now = Activity::Now{heard.answer->step, heard.answer->what, since}});
    }
  }
  return ranks;
}

std::string GroupCore::late(const PendingCall& pending, SteadyTime now) const {
  const GroupCall& call = *pending.call;
  const auto blamed = missing(pending, now);
  std::string text = "collective: ";
  if (blamed.empty()) {
    text += fmt::format("{} waits for {}", activity_of(call.call()), some_ranks(call.awaited(), view_.size));
  } else {
    text += verdict(activity_.now().step, view_, call.call(), blamed);
  }
  if (call.unsent()) text += fmt::format("; cannot send: {}", call.unsent()->message);
  return text + fmt::format(" (call {} of epoch {}, {:.1f} s)", call.place().index, call.place().epoch,
                            seconds(now - pending.made));
}

Status GroupCore::wait(PendingCall& pending) {
  std::optional<std::string> before;  // what this rank was at, once it says that it waits
  for (;;) {
    progress();
    const SteadyTime now = inbox_.now();
    check(pending, now);
    if (pending.answer) break;
    if (!before) {
      before = activity_.now().what;
      activity_.enter(activity_of(pending.call->call()));
    }
    GroupCall& first = *under_way_.front()->call;
    if (first.is_local()) {
      first.wait_local();
    } else {
      inbox_.wait(watch(pending, now));
    }
  }
  if (before) activity_.enter(*before);
  return *pending.answer;
}

bool GroupCore::done(PendingCall& pending) {
  progress();
  check(pending, inbox_.now());
  return pending.answer.has_value();
}

void GroupCore::drop(PendingCall& pending) {
  if (!pending.answer) {
    inbox_.fail({Code::kCancelled, fmt::format("collective: rank {} dropped {} before it was done", view_.rank,
                                               pending.call->call().describe())});
    std::erase_if(under_way_, [&](const auto& other) { return other.get() == &pending; });
  }
  answered();
}

}  // namespace troupe::collectives::detail
