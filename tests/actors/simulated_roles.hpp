#pragma once
// The roles of simulated runs, and the ledger that watches over them: sources send items, sinks make batches of them, a
// learner makes versions of those, a server answers calls. All that they do is written into the ledger, which outlives
// every process.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <troupe/actors/runtime/group_seat.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors::testing {

/// A lane of frames from one incarnation of an instance.
struct Source {
  std::string instance;
  std::uint32_t incarnation = 0;
  friend auto operator<=>(const Source&, const Source&) = default;
};

/// Watches over all roles of a run from outside of it.
class Ledger {
 public:
  void sent(const Source& source, std::uint64_t number) {
    const auto [range, fresh] = sent_.try_emplace(source, number, number);
    if (!fresh && number != range->second.second + 1) {
      finding("{}/{} sends {} after {}", source.instance, source.incarnation, number, range->second.second);
    }
    range->second.second = number;
    ++all_sent;
  }

  void took(const Source& consumer, const Source& source, std::uint64_t number) {
    auto [last, fresh] = last_.try_emplace({consumer, source.instance}, source.incarnation, number);
    const auto now = std::pair(source.incarnation, number);
    if (!fresh && now <= last->second) {
      finding("{}/{} takes {}/{}:{} after {}:{}", consumer.instance, consumer.incarnation, source.instance,
              source.incarnation, number, last->second.first, last->second.second);
    }
    last->second = now;
    taken_[consumer.instance][source].push_back(number);
    ++all_taken;
  }

  /// How much every consumer had taken, to be kept in the state that it saves.
  std::int64_t mark(const std::string& consumer) {
    Mark mark;
    for (const auto& [source, numbers] : taken_[consumer]) mark[source] = numbers.size();
    marks_.push_back(std::move(mark));
    return static_cast<std::int64_t>(marks_.size()) - 1;
  }

  /// Everybody who is in an epoch has the same members in mind, and nobody goes back to an older one.
  void seated(const Source& member, const collectives::GroupView& view) {
    std::vector<std::string> names;
    for (const auto& other : view.members) names.push_back(other.name);
    const auto [epoch, fresh] = epochs_.try_emplace(view.epoch, names);
    if (!fresh && epoch->second != names) {
      finding("{} has {} in epoch {}, others have {}", member.instance, fmt::join(names, "; "), view.epoch,
              fmt::join(epoch->second, "; "));
    }
    if (view.rank < 0 || view.rank >= view.size || view.members.size() != static_cast<std::size_t>(view.size) ||
        fmt::format("member-{}", view.members[static_cast<std::size_t>(view.rank)].id) != member.instance) {
      finding("{} has rank {} of {} in epoch {}", member.instance, view.rank, view.size, view.epoch);
    }
    std::uint64_t& newest = newest_epoch_[member];
    if (view.epoch < newest) finding("{} goes from epoch {} to {}", member.instance, newest, view.epoch);
    newest = view.epoch;
  }
  /// Where the members of the group are; empty when all are in one epoch, and no other.
  std::string scattered(std::int64_t count) {
    std::set<std::uint64_t> newest;
    std::string where;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("member-{}", i);
      const std::uint64_t epoch = newest_epoch_[{name, live[name]}];
      newest.insert(epoch);
      where += fmt::format(" {}/{} in {}.{}", name, live[name], epoch >> 32, epoch & 0xffffffff);
    }
    return newest.size() == 1 && epochs_[*newest.begin()].size() == static_cast<std::size_t>(count) ? "" : where;
  }

  void check_cut(const std::vector<std::shared_ptr<const Cut>>& shards);
  void check_end(std::int64_t under_way);
  /// A resumed producer goes on where its cut was.
  void check_first(const std::string& instance, std::uint64_t number) {
    for (const auto& [source, range] : sent_) {
      if (source.instance != instance) continue;
      if (range.first != number) finding("resumed: {} begins with {}, expected {}", instance, range.first, number);
      return;
    }
    finding("resumed: {} sends nothing", instance);
  }

  template <typename... Args>
  void finding(fmt::format_string<Args...> text, Args&&... args) {
    if (findings.size() < 20) findings.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  std::vector<std::string> findings;
  std::int64_t all_sent = 0;
  std::int64_t all_taken = 0;
  std::int64_t calls_answered = 0;
  std::int64_t calls_failed = 0;
  std::uint64_t version = 0;                        ///< newest; durable, as the learner's is
  std::map<std::string, std::uint64_t> seen;        ///< by source, the newest version that it has got
  std::map<std::string, std::int64_t> by_instance;  ///< frames taken of each source
  std::set<std::string> fail_next;                  ///< instances whose next step fails
  std::map<std::string, int> lose;                  ///< how many times an instance is yet to lose its device
  std::map<std::string, std::uint32_t> live;        ///< newest incarnation of each instance
  std::set<std::string> planned;                    ///< instances that do not leave while the run goes on
  bool finish = false;
  int cuts = 0;

 private:
  using Mark = std::map<Source, std::size_t>;
  std::map<Source, std::pair<std::uint64_t, std::uint64_t>> sent_;
  std::map<std::pair<Source, std::string>, std::pair<std::uint32_t, std::uint64_t>> last_;
  std::map<std::string, std::map<Source, std::vector<std::uint64_t>>> taken_;
  std::vector<Mark> marks_;
  std::map<std::uint64_t, std::vector<std::string>> epochs_;
  std::map<Source, std::uint64_t> newest_epoch_;
};

struct Item {
  std::uint32_t producer = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t number = 0;
};

inline Frame item_frame(messages::FramePool& pool, const Item& item) {
  std::byte bytes[sizeof(item)];
  std::memcpy(bytes, &item, sizeof(item));
  return pool.copy(bytes).value();
}

inline Item item_of(const Frame& frame) {
  Item item;
  std::memcpy(&item, frame.bytes().data(), sizeof(item));
  return item;
}

inline void Ledger::check_cut(const std::vector<std::shared_ptr<const Cut>>& shards) {
  ++cuts;
  // For each consuming role: all that its instances had ever taken, and what waited in them.
  std::map<std::string, std::map<Source, std::set<std::uint64_t>>> held;
  std::map<std::string, std::pair<Source, std::uint64_t>> next;
  for (const auto& shard : shards) {
    for (const Cut::Instance& instance : shard->instances) {
      const std::string role = instance.name.substr(0, instance.name.find('-'));
      const std::string name = role == instance.name ? role + "-0" : instance.name;
      const RoleState& state = instance.state->role;
      if (const auto mark = state.counter("mark"); mark.ok()) {
        for (const auto& [source, count] : marks_[static_cast<std::size_t>(*mark)]) {
          const auto& numbers = taken_[name][source];
          held[role][source].insert(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count));
        }
      }
      for (const auto& [edge, frame] : instance.state->waiting) {
        if (role != "sink" && role != "learner") continue;
        const Item item = item_of(frame);
        const std::string producer = role == "sink" ? "source" : "sink";
        held[role][{fmt::format("{}-{}", producer, item.producer), item.incarnation}].insert(item.number);
      }
      if (const auto value = state.counter("next"); value.ok() && (role == "source" || role == "sink")) {
        const auto incarnation = static_cast<std::uint32_t>(state.counter("incarnation").value());
        next[name] = {{name, incarnation}, static_cast<std::uint64_t>(*value)};
      }
    }
  }
  for (const auto& [name, produced] : next) {
    const auto& [source, end] = produced;
    const auto known = sent_.find(source);
    if (known == sent_.end()) continue;  // has sent nothing
    const std::string consumer = name.starts_with("source") ? "sink" : "learner";
    const std::set<std::uint64_t>& got = held[consumer][source];
    for (std::uint64_t number = known->second.first; number < end; ++number) {
      if (!got.contains(number)) finding("cut: {}/{}:{} is missing", source.instance, source.incarnation, number);
    }
    if (!got.empty() && *got.rbegin() >= end) {
      finding("cut: {}/{}:{} came from after the cut ({})", source.instance, source.incarnation, *got.rbegin(), end);
    }
  }
}

/// Of producers that live, all but the last few must have come through.
inline void Ledger::check_end(std::int64_t under_way) {
  for (const auto& [source, range] : sent_) {
    if (live[source.instance] != source.incarnation || !planned.contains(source.instance)) continue;
    std::set<std::uint64_t> got;
    for (const auto& [consumer, by_source] : taken_) {
      const auto found = by_source.find(source);
      if (found != by_source.end()) got.insert(found->second.begin(), found->second.end());
    }
    for (std::uint64_t number = range.first; number + static_cast<std::uint64_t>(under_way) < range.second; ++number) {
      if (!got.contains(number)) finding("{}/{}:{} was lost", source.instance, source.incarnation, number);
    }
  }
}

class SimulatedRole : public Role {
 public:
  SimulatedRole(const RoleIdentity& identity, std::shared_ptr<Ledger> ledger)
      : self_{fmt::format("{}-{}", identity.role, identity.index), static_cast<std::uint32_t>(identity.incarnation)},
        index_(static_cast<std::uint32_t>(identity.index)),
        ledger_(std::move(ledger)),
        rng_(identity.seed + static_cast<std::uint64_t>(identity.incarnation)) {
    // A process that was asleep may make one of an earlier incarnation after that.
    std::uint32_t& live = ledger_->live[self_.instance];
    live = std::max(live, self_.incarnation);
  }

  Result<Progress> step(RoleContext& context) final {
    if (ledger_->fail_next.erase(self_.instance) > 0) return Error{Code::kInternal, "told to fail"};
    if (int& times = ledger_->lose[self_.instance]; times > 0) {
      --times;
      return Error{Code::kLost, "its GPU is gone"};
    }
    return work(context);
  }

 protected:
  virtual Result<Progress> work(RoleContext& context) = 0;
  Duration random(Duration least, Duration most) {
    return least + Duration(rng_.below(static_cast<std::uint64_t>((most - least).count())));
  }
  void emit(RoleContext& context, std::string_view port) {
    ledger_->sent(self_, next_);
    context.out(port).send(item_frame(context.pool(), {index_, self_.incarnation, next_++}));
  }
  void absorb(const Frame& frame, std::string_view producer) {
    const Item item = item_of(frame);
    const Source source{fmt::format("{}-{}", producer, item.producer), item.incarnation};
    ledger_->took(self_, source, item.number);
    ++ledger_->by_instance[source.instance];
  }
  Result<RoleState> save() const override {
    RoleState state;
    state.counters = {{"next", static_cast<std::int64_t>(next_)},
                      {"incarnation", self_.incarnation},
                      {"mark", ledger_->mark(self_.instance)}};
    return state;
  }
  Status restore(const RoleState& state) override {
    TROUPE_ASSIGN(const std::int64_t next, state.counter("next"));
    next_ = static_cast<std::uint64_t>(next);
    return {};
  }

  const Source self_;
  const std::uint32_t index_;
  const std::shared_ptr<Ledger> ledger_;
  Rng rng_;
  std::uint64_t next_ = 0;
};

/// Sends items at its own pace, calls the server now and then, and reads versions.
class SourceRole final : public SimulatedRole {
 public:
  using SimulatedRole::SimulatedRole;
  Result<Progress> work(RoleContext& context) override {
    if (!context.in("version").empty()) {
      std::uint64_t& seen = ledger_->seen[self_.instance];
      seen = std::max(seen, static_cast<std::uint64_t>(number_of(context.in("version").take())));
    }
    const Duration now = context.clock().now();
    if (now >= at_ && context.out("items").ready()) {
      emit(context, "items");
      at_ = now + random(std::chrono::milliseconds(15), std::chrono::milliseconds(45));
    }
    if (now >= call_at_ && context.caller("ask").ready()) {
      call_at_ = now + random(std::chrono::milliseconds(100), std::chrono::milliseconds(300));
      context.caller("ask").call(number_frame(context.pool(), 1), std::chrono::milliseconds(200),
                                 [ledger = ledger_](Result<Frame> answer) {
                                   ++(answer.ok() ? ledger->calls_answered : ledger->calls_failed);
                                 });
    }
    context.wake_after(std::max(std::min(at_, call_at_) - now, Duration(std::chrono::milliseconds(5))));
    return Progress::kIdle;
  }

 private:
  Duration at_{};
  Duration call_at_{};
};

/// Takes items and makes one batch of every two.
class SinkRole final : public SimulatedRole {
 public:
  using SimulatedRole::SimulatedRole;
  Result<Progress> work(RoleContext& context) override {
    while (!context.in("items").empty() && context.out("batches").ready()) {
      absorb(context.in("items").take(), "source");
      if (++items_ % 2 == 0) emit(context, "batches");
    }
    return Progress::kIdle;
  }

 private:
  std::uint64_t items_ = 0;
};

/// Takes batches and publishes a version for each.
class LearnerRole final : public SimulatedRole {
 public:
  using SimulatedRole::SimulatedRole;
  Result<Progress> work(RoleContext& context) override {
    while (!context.in("batches").empty()) {
      absorb(context.in("batches").take(), "sink");
      context.out("version").send(number_frame(context.pool(), static_cast<std::int64_t>(++ledger_->version)));
    }
    if (ledger_->finish) return Progress::kDone;
    context.wake_after(std::chrono::milliseconds(200));
    return Progress::kIdle;
  }
};

class ServerRole final : public SimulatedRole {
 public:
  using SimulatedRole::SimulatedRole;
  Result<Progress> work(RoleContext& context) override {
    while (!context.server("ask").empty()) {
      auto [question, answer] = context.server("ask").take();
      answer(question);
    }
    return Progress::kIdle;
  }
};

/// One of a group; says where it finds itself.
class MemberRole final : public SimulatedRole {
 public:
  MemberRole(const RoleIdentity& identity, std::shared_ptr<Ledger> ledger)
      : SimulatedRole(identity, std::move(ledger)), seat_(identity.group) {}
  Result<Progress> work(RoleContext& context) override {
    if (const auto view = seat_->view()) ledger_->seated(self_, *view);
    context.wake_after(std::chrono::milliseconds(50));
    return Progress::kIdle;
  }

 private:
  const std::shared_ptr<GroupSeat> seat_;
};

class ReportsRole final : public SimulatedRole {
 public:
  using SimulatedRole::SimulatedRole;
  Result<Progress> work(RoleContext& context) override {
    while (!context.in("reports").empty()) (void)context.in("reports").take();
    return Progress::kIdle;
  }
};

template <typename R>
RoleSpec role(std::string name, std::int64_t count, const std::shared_ptr<Ledger>& ledger) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.count = count;
  spec.make = factory([ledger](const RoleIdentity& identity) { return std::make_unique<R>(identity, ledger); });
  spec.restart.max_restarts = 1000;
  spec.restart.max_backoff = std::chrono::milliseconds(400);
  return spec;
}

constexpr std::int64_t kCapacity = 4;

inline Topology make_topology(Rng& rng, const std::shared_ptr<Ledger>& ledger) {
  RoleSpec source = role<SourceRole>("source", 2 + static_cast<std::int64_t>(rng.below(2)), ledger);
  source.inlets = {{"version", "Version", ChannelKind::kLatest}};
  source.outlets = {{"items", "Item", ChannelKind::kStream}, {"ask", "Question", ChannelKind::kRequest}};
  RoleSpec sink = role<SinkRole>("sink", 1 + static_cast<std::int64_t>(rng.below(2)), ledger);
  sink.inlets = {{"items", "Item", ChannelKind::kStream}};
  sink.outlets = {{"batches", "Batch", ChannelKind::kStream}};
  sink.restart.from = RestartFrom::kLastCut;
  RoleSpec learner = role<LearnerRole>("learner", 1, ledger);
  learner.inlets = {{"batches", "Batch", ChannelKind::kStream}};
  learner.outlets = {{"version", "Version", ChannelKind::kLatest}};
  learner.restart.from = RestartFrom::kLastCut;
  learner.completes_run = true;
  RoleSpec server = role<ServerRole>("server", 1, ledger);
  server.inlets = {{"ask", "Question", ChannelKind::kRequest}};
  RoleSpec member = role<MemberRole>("member", 1 + static_cast<std::int64_t>(rng.below(3)), ledger);
  member.group = true;
  member.execution = Execution::kThread;
  RoleSpec reports = role<ReportsRole>("reports", 1, ledger);
  reports.inlets = {{"reports", "Metrics", ChannelKind::kStream}};
  Topology topology;
  topology.roles = {source, sink, learner, server, member, reports};
  topology.channels = {{"source", "items", "sink", "items", kCapacity},
                       {"sink", "batches", "learner", "batches", 2},
                       {"learner", "version", "source", "version", 1},
                       {"source", "ask", "server", "ask", 2}};
  topology.reports = PortName{"reports", "reports"};
  return topology;
}

}  // namespace troupe::actors::testing
