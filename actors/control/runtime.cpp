#include <troupe/actors/control/runtime.hpp>

#include <caf/scheduler/test_coordinator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/actors/control/chief_actor.hpp>
#include <troupe/actors/control/groups.hpp>
#include <troupe/actors/control/lockstep.hpp>
#include <troupe/actors/control/node_actor.hpp>
#include <troupe/actors/runtime/turns.hpp>
#include <troupe/core/check.hpp>

namespace troupe::actors {
namespace {

/// In virtual time every slice of an actor costs this much, so that periods pass while there is always work to do.
/// About what a slice of a small agent costs, so that limits and periods given in seconds mean the same in both
/// times.
constexpr Duration kVirtualSlice = std::chrono::microseconds(200);
/// How often the waiting thread looks up in real time.
constexpr Duration kPoll = std::chrono::milliseconds(50);
/// It naps longer and longer: hundreds of nodes on one host would keep a processor busy with looking up.
constexpr Duration kFirstNap = std::chrono::milliseconds(1), kLongestNap = std::chrono::milliseconds(20);
constexpr Duration kStopDeadline = std::chrono::seconds(60);
constexpr Duration kStatusDeadline = std::chrono::seconds(5);

caf::actor_system_config& configure(caf::actor_system_config& config, bool deterministic) {
  // `sharing` parks idle workers on a condition variable; the default, `stealing`, polls, and roles with long slices
  // have threads of their own anyway.
  config.set("scheduler.policy", deterministic ? caf::atom("testing") : caf::atom("sharing"));
  config.set("scheduler.max-threads", std::size_t{2});
  config.set("logger.console", caf::atom("none"));
  return config;
}

/// Threads of this node: its instances that have one, and those that hold it together (CAF's, chief, node, writer).
std::int64_t threads_needed(const Topology& topology, const RuntimeOptions& options) {
  constexpr std::int64_t kOwn = 8;
  std::int64_t count = kOwn;
  for (const RoleSpec& role : topology.roles) {
    if (role.execution != Execution::kThread) continue;
    for (const PlacedNode& node : options.chief.placement) {
      for (const PlacedNode::Share& share : node.shares) {
        if (node.name == options.node.self.node && share.role == role.name) count += std::ssize(share.indices);
      }
    }
  }
  return count;
}

/// Of a deterministic run: the instances that may wait for others of their group within a step.
std::size_t members_of_groups(const Topology& topology) {
  std::int64_t count = 0;
  for (const RoleSpec& role : topology.roles) count += role.group && role.count > 1 ? role.count : 0;
  return static_cast<std::size_t>(count);
}

/// Of a deterministic run over nodes: what its actors see as their network. They share no memory, since what members
/// of a group say to each other is to go through rounds as well.
std::unique_ptr<Lockstep> go_in_step(RuntimeOptions& options) {
  NodeOptions& node = options.node;
  if (!options.deterministic || node.network == nullptr) return nullptr;
  LockstepOptions how{
      .network = node.network, .node = node.self.node, .address = node.address, .config_hash = node.config_hash};
  for (const PlacedNode& placed : options.chief.placement) how.all.insert(placed.name);
  auto lockstep = std::make_unique<Lockstep>(std::move(how));
  node.network = lockstep.get();
  node.host.clear();
  return lockstep;
}

/// Whether so many threads can be had at once: in the middle of a start it would be too late to say no.
Status check_threads(std::int64_t count) {
  std::mutex held;
  std::vector<std::thread> threads;
  Status status;
  {
    const std::lock_guard lock(held);
    try {
      for (std::int64_t i = 0; i < count; ++i) threads.emplace_back([&held] { const std::lock_guard wait(held); });
    } catch (const std::exception& exception) {
      status = Error{Code::kUnavailable,
                     fmt::format("this process needs {} threads, of which it got {}: {}; the limits are ulimit -u and "
                                 "ulimit -v, and those of its container; fewer env actors (actors.count) need fewer",
                                 count, threads.size(), exception.what())};
    }
  }
  for (std::thread& thread : threads) thread.join();
  return status;
}

/// Of a run within one process: what single instances are restarted from. Written by the writer of cuts, read by the
/// instances that start.
struct NewestCut {
  std::mutex mutex;
  std::shared_ptr<const Cut> cut;
};

/// Writes a cut, and then keeps what roles that go on from the last cut would be restarted from.
std::function<Status(std::shared_ptr<const Cut>)> keeping_newest(
    std::function<Status(std::shared_ptr<const Cut>)> write, const Topology& topology,
    std::shared_ptr<NewestCut> newest) {
  std::vector<std::string> roles;
  for (const RoleSpec& role : topology.roles) {
    if (role.restart.from == RestartFrom::kLastCut) roles.push_back(role.name);
  }
  return [write = std::move(write), roles = std::move(roles),
          newest = std::move(newest)](std::shared_ptr<const Cut> cut) -> Status {
    TROUPE_TRY(write(cut));
    auto kept = std::make_shared<Cut>(*cut);
    std::erase_if(kept->instances, [&](const Cut::Instance& instance) {
      return std::ranges::none_of(roles, [&](const std::string& role) {
        return instance.name == role || instance.name.starts_with(role + "-");
      });
    });
    const std::lock_guard lock(newest->mutex);
    newest->cut = std::move(kept);
    return {};
  };
}

/// Of a run within one process: everything is on the chief's node and starts from the cut in memory.
void be_the_whole_run(RuntimeOptions& options, const Topology& topology) {
  options.chief.placement = all_on(kChiefNode, topology);
  if (options.resume_from) {
    CutPart part{kChiefNode, "", {}};
    for (const Cut::Instance& instance : options.resume_from->instances) part.instances.push_back(instance.name);
    options.chief.resume_from = {{1, {std::move(part)}}};
  }
  const auto newest = std::make_shared<NewestCut>();
  newest->cut = options.resume_from;
  options.node.load = [newest](const std::string& instance,
                               std::uint64_t) -> Result<std::shared_ptr<const InstanceState>> {
    const std::lock_guard lock(newest->mutex);
    if (newest->cut != nullptr) {
      for (const Cut::Instance& saved : newest->cut->instances) {
        if (saved.name == instance) return saved.state;
      }
    }
    // A newer one, without it, is about to be the last: then it starts afresh.
    return Error{Code::kUnavailable, "the newest checkpoint was taken without it"};
  };
  if (options.write_cut) options.write_cut = keeping_newest(std::move(options.write_cut), topology, newest);
}

}  // namespace

/// Begins at 0.
class RuntimeClock final : public Clock {
 public:
  explicit RuntimeClock(caf::actor_clock& clock) : clock_(clock), start_(clock.now()) {}
  Duration now() const override { return clock_.now() - start_; }

 private:
  caf::actor_clock& clock_;
  caf::actor_clock::time_point start_;
};

struct Runtime::Impl {
  Impl(Topology topology_in, RuntimeOptions options_in)
      : topology(std::move(topology_in)),
        options(std::move(options_in)),
        pool({.memory = over_nodes() ? options.node.network->frame_memory() : nullptr}),
        system(configure(config, options.deterministic)),
        clock(system.clock()),
        turns(options.deterministic && members_of_groups(topology) > 0
                  ? std::make_unique<Turns>(clock, members_of_groups(topology))
                  : nullptr),
        lockstep(go_in_step(options)),
        routes(topology),
        groups(topology, options.node.self.node, options.node.network, pool, turns.get()),
        self(system) {}

  bool over_nodes() const { return options.node.network != nullptr; }
  bool leads() const { return options.node.self.node == kChiefNode; }

  Status start() {
    const caf::actor listener = caf::actor_cast<caf::actor>(self);
    if (leads()) {
      ChiefJournal earlier;
      if (options.chief.journal.load) {
        TROUPE_ASSIGN(earlier, options.chief.journal.load());
      }
      // Whoever looks after this process started it again, but the nodes have been told of the end.
      if (!earlier.over.empty() && options.chief.resume_from.empty()) {
        return Error{Code::kInvalidArgument,
                     fmt::format("TRP-E504 this run has ended ({}); go on from its last checkpoint with --resume",
                                 earlier.over)};
      }
      if (lockstep != nullptr && earlier.term > 0 && options.chief.resume_from.empty()) {
        return Error{Code::kInvalidArgument,
                     "TRP-E504 the chief of this deterministic run has been lost, and nobody leads it again; go on "
                     "from its last checkpoint with --resume"};
      }
      chief = spawn<ChiefActor>(options, topology, clock, std::move(earlier), listener);
    }
    node = spawn<NodeActor>(options, NodeTools{topology, clock, pool, routes, groups}, chief, listener);
    if (over_nodes()) options.node.network->start(options.node.birth, events());
    return {};
  }

  /// In real time chief and node have threads of their own: no role's slice delays them.
  template <typename Actor, typename... Args>
  caf::actor spawn(Args&&... args) {
    return options.deterministic ? system.spawn<Actor>(std::forward<Args>(args)...)
                                 : system.spawn<Actor, caf::detached>(std::forward<Args>(args)...);
  }

  /// What the network says goes to the chief, to the node or straight to an instance.
  NetworkEvents events() {
    NetworkEvents events;
    const caf::actor head = chief ? chief : node;  // whom control is for: from nodes to the chief, from the chief to us
    events.received = [this, head, hands = node](const std::string& from, RemoteMessage message) {
      if (auto* control = std::get_if<messages::Control>(&message)) {
        caf::anon_send(head, control_atom::value, from, std::move(*control));
      } else if (const auto* marker = std::get_if<MarkerMessage>(&message)) {
        caf::anon_send(hands, marker_atom::value, from, marker->cut);
      } else if (auto* group = std::get_if<GroupMessage>(&message)) {
        groups.deliver(from, std::move(*group));
      } else {
        routes.deliver(from, std::move(message));
      }
    };
    events.found = [head](const std::string& name, std::uint64_t birth) {
      caf::anon_send(head, found_atom::value, name, birth);
    };
    events.lost = [head](const std::string& name, std::uint64_t birth) {
      caf::anon_send(head, lost_atom::value, name, birth);
    };
    return events;
  }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }

  /// In virtual time: one slice of one actor, or the rest of a slice that had to wait. False: nothing can go on now.
  bool turn() {
    if (turns == nullptr && lockstep == nullptr) return scheduler().try_run_once();
    // By turns, since members of a group that always have more to do would leave nothing to others.
    resumed = turns != nullptr && (!resumed || !scheduler().has_job()) && turns->resume();
    if (resumed) return true;
    if (!scheduler().has_job()) return false;
    turns != nullptr ? turns->run([this] { run_first_job(); }) : run_first_job();
    return true;
  }

  /// CAF puts an actor that has more messages before all others; here it comes behind them, for the same reason.
  void run_first_job() {
    std::deque<caf::resumable*>& jobs = scheduler().jobs;
    caf::resumable* const job = jobs.front();
    scheduler().try_run_once();
    if (jobs.empty() || jobs.front() != job) return;
    jobs.pop_front();
    jobs.push_back(job);
  }

  /// Lets time pass: one slice of one actor in virtual time, up to kPoll in real time. Takes what the chief says.
  void advance() {
    auto on_ended = [this](ended_atom, RunEnded& message) { ended = std::move(message); };
    auto on_done = [this](CheckpointDone& message) { checkpoint_done = std::move(message); };
    auto on_status = [this](std::string& message) { status = std::move(message); };
    if (!options.deterministic) {
      // Not by CAF's own time-out: that is a time of the wall clock, and somebody may set it back by an hour.
      for (Duration waited{}; !self->has_next_message() && waited < kPoll; waited += nap) {
        nap = std::min(2 * nap, kLongestNap);
        std::this_thread::sleep_for(nap);
      }
      if (self->has_next_message()) {
        nap = kFirstNap;
        self->receive(
            on_ended, on_done, on_status, caf::after(std::chrono::seconds(0)) >> [] {});
      }
      return;
    }
    if (lockstep != nullptr) {
      advance_in_step();
    } else if (turn()) {
      scheduler().clock().advance_time(kVirtualSlice);
    } else if (!scheduler().clock().trigger_timeout()) {
      broken = Error{Code::kInternal, "standstill: every role waits for another and no time is set for any to wake"};
    }
    if (self->has_next_message()) self->receive(on_ended, on_done, on_status);
  }

  bool tells() const { return options.status_period != Duration{} && leads(); }
  void pass_status_on() {
    if (!status || !options.tell_status) return;
    options.tell_status(*std::exchange(status, std::nullopt));
    told = true;
  }
  /// Of a run that ends before its chief has answered, and of one that nobody asks: once, if nothing else was told.
  void tell_topology() {
    if (told || !tells()) return;
    options.tell_status(to_json(topology, status_of_topology()));
    told = true;
  }
  /// Passes on what the chief has answered, and asks it again when it is time.
  void tell_status() {
    if (!tells()) return;
    if (options.deterministic) return tell_topology();
    pass_status_on();
    const Duration now = clock.now();
    if (asked_at && now - *asked_at < options.status_period) return;
    asked_at = now;
    self->send(chief, status_atom::value);
  }

  /// Who there is.
  RunStatus status_of_topology() const {
    RunStatus known{.run = options.node.self.run};
    for (const RoleSpec& role : topology.roles) {
      for (std::int64_t i = 0; i < role.count; ++i) {
        RunStatus::Instance& instance = known.instances.emplace_back();
        instance.name = RoleIdentity{.role = role.name, .index = i, .count = role.count}.name();
        instance.role = role.name;
        instance.state = "not asked";
      }
    }
    return known;
  }

  /// The same of a node that goes in step with others: until its round is over, and then until theirs are.
  void advance_in_step() {
    if (lockstep->released()) {
      lockstep->drain();
      if (!turn()) std::this_thread::sleep_for(kVirtualSlice);  // timers are of real time now
      return (void)scheduler().clock().advance_time(kVirtualSlice);
    }
    if (clock.now() < round_end) {
      (void)turn();
      return (void)scheduler().clock().advance_time(kVirtualSlice);
    }
    const Result<bool> begun = lockstep->next_round(kPoll);
    if (!begun.ok()) broken = begun.error();
    if (begun.ok() && *begun) round_end += Lockstep::kRound;
  }

  /// Of a deterministic run: nothing is in its way to the end any more.
  void wind_up() {
    const auto end_turns = [this] {
      while (turn()) {
      }
    };
    if (leads()) end_turns();  // the roles here end at a moment that is the same in every run
    if (lockstep != nullptr) {
      lockstep->release();
      const auto give_up = std::chrono::steady_clock::now() + kStopDeadline;
      while (system.registry().running() > 1 && std::chrono::steady_clock::now() < give_up) advance_in_step();
    }
    if (turns == nullptr) return;
    // The end of the groups has woken their members; nobody else could come for a turn that waits still.
    turns->cancel();
    while (turns->resume()) {
    }
    if (lockstep == nullptr) end_turns();
  }

  caf::actor_system_config config;
  Topology topology;
  RuntimeOptions options;
  messages::FramePool pool;
  caf::actor_system system;
  RuntimeClock clock;
  const std::unique_ptr<Turns> turns;        ///< null: no slice ever waits for another, or each has a thread
  const std::unique_ptr<Lockstep> lockstep;  ///< of a deterministic run over nodes
  Routes routes;
  Groups groups;
  caf::scoped_actor self;
  caf::actor chief;  ///< invalid on other nodes
  caf::actor node;
  std::optional<RunEnded> ended;
  std::optional<Error> broken;  ///< in virtual time: why nothing can go on
  Duration round_end{};
  bool resumed = false;      ///< whether the last turn went on with one that had waited
  Duration nap = kFirstNap;  ///< the last one
  std::optional<CheckpointDone> checkpoint_done;
  std::optional<std::string> status;
  std::optional<Duration> asked_at;  ///< when the chief was last asked for what RuntimeOptions::tell_status gets
  bool told = false;                 ///< whether that has got anything
};

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Runtime>> Runtime::make(Topology topology, RuntimeOptions options) {
  TROUPE_TRY(check(topology));
  if (options.node.network == nullptr) {
    be_the_whole_run(options, topology);
  } else {
    TROUPE_TRY(check_message_types(topology));
  }
  if (options.node.self.node == kChiefNode) TROUPE_TRY(check(topology, options.chief.placement));
  if (!options.deterministic) TROUPE_TRY(check_threads(threads_needed(topology, options)));
  try {
    return std::unique_ptr<Runtime>(new Runtime(std::make_unique<Impl>(std::move(topology), std::move(options))));
  } catch (const std::exception& exception) {
    return Error{Code::kUnavailable, fmt::format("the actor system cannot start: {}", exception.what())};
  }
}

Runtime::~Runtime() { stop(); }

Duration Runtime::stop() {
  if (!impl_->node) return impl_->clock.now();
  // What the chief has answered since run() ended: of a short run it is the only answer, if there is any.
  impl_->pass_status_on();
  impl_->tell_topology();
  // The chief passes it on to all nodes, this one among them.
  impl_->self->send(impl_->leads() ? impl_->chief : impl_->node, stop_atom::value);
  impl_->chief = nullptr;
  impl_->node = nullptr;
  const Duration last_step = impl_->clock.now();
  if (impl_->options.deterministic) impl_->wind_up();
  // Only the scoped actor of this thread remains. A thread that never returns from a step cannot be ended from outside.
  const auto give_up = std::chrono::steady_clock::now() + kStopDeadline;
  while (impl_->system.registry().running() > 1) {
    TROUPE_CHECK(std::chrono::steady_clock::now() < give_up, "a role has not returned from its step for {} s",
                 std::chrono::duration_cast<std::chrono::seconds>(kStopDeadline).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (impl_->over_nodes()) impl_->options.node.network->stop();
  // Timers that are still set hold their actors, and the system would wait for those.
  impl_->system.clock().cancel_all();
  return impl_->lockstep != nullptr ? last_step : impl_->clock.now();  // nodes do not end in step
}

const Clock& Runtime::clock() const { return impl_->clock; }

Result<Runtime::Ended> Runtime::run(const std::function<bool()>& interrupt) {
  if (!impl_->node) TROUPE_TRY(impl_->start());
  while (!impl_->ended) {
    if (interrupt()) return Ended::kInterrupted;
    impl_->tell_status();
    impl_->advance();
    if (impl_->broken && !impl_->ended) return *impl_->broken;
  }
  if (impl_->ended->error) return *impl_->ended->error;
  if (!impl_->ended->stopped || !impl_->leads()) return Ended::kComplete;
  impl_->ended.reset();
  return Ended::kStopped;
}

Result<std::vector<messages::Counter>> Runtime::checkpoint(std::optional<Duration> patience) {
  TROUPE_CHECK(impl_->chief && impl_->options.write_cut, "checkpoint() before run(), without a writer or a chief");
  impl_->checkpoint_done.reset();
  impl_->nap = kFirstNap;
  impl_->self->send(impl_->chief, checkpoint_atom::value, patience.value_or(impl_->options.cut_deadline));
  // A cut may be under way, then comes this one, each with up to three deadlines; the rest is the disk's time.
  const Duration give_up = impl_->clock.now() + 6 * impl_->options.cut_deadline + kWriteDeadline;
  while (!impl_->checkpoint_done && !impl_->broken && impl_->clock.now() < give_up) impl_->advance();
  if (!impl_->checkpoint_done && impl_->broken) return *impl_->broken;
  if (!impl_->checkpoint_done) return Error{Code::kDeadlineExceeded, "checkpoint: the chief did not answer"};
  if (impl_->checkpoint_done->error) return *impl_->checkpoint_done->error;
  return std::move(impl_->checkpoint_done->counters);
}

void Runtime::wait(Duration duration) {
  const Duration end = impl_->clock.now() + duration;
  while (!impl_->options.deterministic && !impl_->broken && impl_->clock.now() < end) impl_->advance();
}

Result<std::string> Runtime::status() {
  TROUPE_CHECK(impl_->chief, "status() before run() or without a chief");
  impl_->status.reset();
  impl_->nap = kFirstNap;
  impl_->self->send(impl_->chief, status_atom::value);
  const Duration give_up = impl_->clock.now() + kStatusDeadline;
  while (!impl_->status && !impl_->broken && impl_->clock.now() < give_up) impl_->advance();
  if (!impl_->status) return Error{Code::kDeadlineExceeded, "status: the chief did not answer"};
  return *std::exchange(impl_->status, std::nullopt);
}

}  // namespace troupe::actors
