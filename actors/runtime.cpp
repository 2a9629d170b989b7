#include <troupe/actors/runtime.hpp>

#include <caf/scheduler/test_coordinator.hpp>

#include <chrono>
#include <thread>

#include <troupe/actors/checkpointer.hpp>
#include <troupe/actors/supervisor.hpp>
#include <troupe/core/check.hpp>

namespace troupe::actors {
namespace {

/// In virtual time every slice of an actor costs this much, so that periods pass while there is always work to do.
/// About what a slice of a small D4PG run costs, so that limits and periods given in seconds mean the same in both
/// times.
constexpr Duration kVirtualSlice = std::chrono::microseconds(200);
/// How often the waiting thread looks up in real time.
constexpr Duration kPoll = std::chrono::milliseconds(50);
constexpr Duration kStopDeadline = std::chrono::seconds(60);
/// A disk that needs longer for one checkpoint has failed for all purposes.
constexpr Duration kWriteDeadline = std::chrono::minutes(10);

class RuntimeClock final : public Clock {
 public:
  explicit RuntimeClock(caf::actor_clock& clock) : clock_(clock), start_(clock.now()) {}
  Duration now() const override { return clock_.now() - start_; }

 private:
  caf::actor_clock& clock_;
  caf::actor_clock::time_point start_;
};

caf::actor_system_config& configure(caf::actor_system_config& config, bool deterministic) {
  // `sharing` parks idle workers on a condition variable; the default, `stealing`, polls, and roles with long slices
  // have threads of their own anyway.
  config.set("scheduler.policy", deterministic ? caf::atom("testing") : caf::atom("sharing"));
  config.set("scheduler.max-threads", std::size_t{2});
  config.set("logger.console", caf::atom("none"));
  return config;
}

}  // namespace

struct Runtime::Impl {
  Impl(Topology topology_in, RuntimeOptions options_in)
      : topology(std::move(topology_in)),
        options(std::move(options_in)),
        system(configure(config, options.deterministic)),
        clock(system.clock()),
        self(system) {}

  void start() {
    SupervisorActorOptions supervisor_options{&topology,
                                              &clock,
                                              &pool,
                                              options.seed,
                                              topology.reports ? options.report_period : Duration::zero(),
                                              options.deterministic,
                                              options.cut_deadline,
                                              std::move(options.resume_from)};
    supervisor = system.spawn<Supervisor>(std::move(supervisor_options), caf::actor_cast<caf::actor>(self));
    if (!options.write_cut) return;
    if (options.deterministic) {
      checkpointer = system.spawn<Checkpointer>(supervisor, options.write_cut, options.checkpoint_period);
    } else {
      checkpointer =
          system.spawn<Checkpointer, caf::detached>(supervisor, options.write_cut, options.checkpoint_period);
    }
  }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }

  /// Lets time pass: one slice of one actor in virtual time, up to kPoll in real time. Takes what the supervisor says.
  void advance() {
    auto on_ended = [this](ended_atom, RunEnded& message) { ended = std::move(message); };
    auto on_done = [this](CheckpointDone& message) { checkpoint_done = std::move(message); };
    if (!options.deterministic) {
      self->receive(
          on_ended, on_done, caf::after(kPoll) >> [] {});
      return;
    }
    if (scheduler().try_run_once()) {
      scheduler().clock().advance_time(kVirtualSlice);
    } else {
      standstill = !scheduler().clock().trigger_timeout();
    }
    if (self->has_next_message()) self->receive(on_ended, on_done);
  }

  caf::actor_system_config config;
  Topology topology;
  RuntimeOptions options;
  messages::FramePool pool;
  caf::actor_system system;
  RuntimeClock clock;
  caf::scoped_actor self;
  caf::actor supervisor;
  caf::actor checkpointer;
  std::optional<RunEnded> ended;
  bool standstill = false;
  std::optional<CheckpointDone> checkpoint_done;
};

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Runtime>> Runtime::make(Topology topology, RuntimeOptions options) {
  TROUPE_TRY(check(topology));
  return std::unique_ptr<Runtime>(new Runtime(std::make_unique<Impl>(std::move(topology), std::move(options))));
}

Runtime::~Runtime() { stop(); }

Duration Runtime::stop() {
  if (!impl_->supervisor) return impl_->clock.now();
  impl_->self->send(impl_->supervisor, stop_atom::value);
  if (impl_->checkpointer) impl_->self->send(impl_->checkpointer, stop_atom::value);
  impl_->supervisor = nullptr;
  impl_->checkpointer = nullptr;
  if (impl_->options.deterministic) impl_->scheduler().run();
  // Only the scoped actor of this thread remains. A thread that never returns from a step cannot be ended from outside.
  const auto give_up = std::chrono::steady_clock::now() + kStopDeadline;
  while (impl_->system.registry().running() > 1) {
    TROUPE_CHECK(std::chrono::steady_clock::now() < give_up, "a role has not returned from its step for {} s",
                 std::chrono::duration_cast<std::chrono::seconds>(kStopDeadline).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Timers that are still set hold their actors, and the system would wait for those.
  impl_->system.clock().cancel_all();
  return impl_->clock.now();
}

const Clock& Runtime::clock() const { return impl_->clock; }

Result<Runtime::Ended> Runtime::run(const std::function<bool()>& interrupt) {
  if (!impl_->supervisor) impl_->start();
  while (!impl_->ended) {
    if (interrupt()) return Ended::kInterrupted;
    impl_->advance();
    if (impl_->standstill && !impl_->ended) {
      return Error{Code::kInternal, "standstill: every role waits for another and no time is set for any to wake"};
    }
  }
  if (impl_->ended->error) return *impl_->ended->error;
  return Ended::kComplete;
}

Status Runtime::checkpoint() {
  TROUPE_CHECK(impl_->checkpointer, "checkpoint() before run() or without a writer");
  impl_->checkpoint_done.reset();
  impl_->self->send(impl_->checkpointer, checkpoint_atom::value);
  // Two cuts may precede the answer (one under way, then this one); the rest is the disk's time.
  const Duration give_up = impl_->clock.now() + 2 * impl_->options.cut_deadline + kWriteDeadline;
  while (!impl_->checkpoint_done && !impl_->standstill && impl_->clock.now() < give_up) impl_->advance();
  if (!impl_->checkpoint_done) return Error{Code::kDeadlineExceeded, "checkpoint: the checkpointer did not answer"};
  if (impl_->checkpoint_done->error) return *impl_->checkpoint_done->error;
  return {};
}

}  // namespace troupe::actors
