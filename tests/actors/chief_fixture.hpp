#pragma once
// A chief alone, in virtual time: its nodes are the test, which says what they say and reads what they are told.
#include <caf/scheduler/test_coordinator.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/control/chief_actor.hpp>

namespace troupe::actors::testing {

class LoneChief {
 public:
  LoneChief(RuntimeOptions options, const Topology& topology, ChiefJournal earlier)
      : options_(std::move(options)),
        clock_(*this),
        system_(config_.set("scheduler.policy", caf::atom("testing")).set("logger.console", caf::atom("none"))) {
    options_.node.network = &network_;
    const auto listener = [this](caf::event_based_actor*, int) -> caf::behavior {
      return {
          [this](ended_atom, const RunEnded& ended) { ended_ = ended; },
          [this](const CheckpointDone& done) { checkpoints_.push_back(done); },
          [this](const std::string& status) { status_ = status; },
          [this](checkpoint_atom) { ask(checkpoint_atom::value, caf::timespan(std::chrono::milliseconds(500))); },
          [this](status_atom) { ask(status_atom::value); },
          [](stop_atom) {},
      };
    };
    listener_ = system_.spawn(listener, 0);  // CAF would bind a reference to null for a function without arguments
    chief_ = system_.spawn<ChiefActor>(options_, topology, clock_, std::move(earlier), listener_);
    scheduler().run();
  }
  ~LoneChief() {
    caf::anon_send_exit(chief_, caf::exit_reason::kill);
    caf::anon_send_exit(listener_, caf::exit_reason::kill);
    chief_ = listener_ = nullptr;
    scheduler().run();
    system_.clock().cancel_all();
  }
  LoneChief(const LoneChief&) = delete;
  LoneChief& operator=(const LoneChief&) = delete;

  void hear(const std::string& node, messages::Control control) {
    caf::anon_send(chief_, control_atom::value, node, std::move(control));
    scheduler().run();
  }
  void pass(Duration time) {
    // In steps, so that timers which are set by timers come in their time.
    for (Duration step = std::chrono::milliseconds(20); time > Duration::zero(); time -= step) {
      scheduler().clock().advance_time(std::min(step, time));
      scheduler().run();
    }
  }
  void checkpoint() {
    caf::anon_send(listener_, checkpoint_atom::value);
    scheduler().run();
  }
  void stop() {
    caf::anon_send(chief_, stop_atom::value);
    scheduler().run();
  }
  std::string status() {
    caf::anon_send(listener_, status_atom::value);
    pass(std::chrono::milliseconds(600));  // nodes that say nothing have 500
    return status_;
  }

  /// What nodes have been told of this kind since the last call, in order.
  std::vector<std::pair<std::string, messages::Control>> told(messages::ControlKind kind) {
    std::vector<std::pair<std::string, messages::Control>> of_kind;
    std::erase_if(network_.sent, [&](const auto& each) {
      if (each.second.kind != kind) return false;
      of_kind.push_back(each);
      return true;
    });
    return of_kind;
  }
  const std::optional<RunEnded>& ended() const { return ended_; }
  const std::vector<CheckpointDone>& checkpoints() const { return checkpoints_; }

 private:
  class VirtualClock final : public Clock {
   public:
    explicit VirtualClock(LoneChief& owner) : owner_(owner) {}
    Duration now() const override { return owner_.scheduler().clock().current_time.time_since_epoch(); }

   private:
    LoneChief& owner_;
  };
  class RecordingNetwork final : public Network {
   public:
    void start(std::uint64_t, NetworkEvents) override {}
    void send(const std::string& node, RemoteMessage message) override {
      sent.emplace_back(node, std::get<messages::Control>(std::move(message)));
    }
    void know(const std::vector<messages::ControlNode>&) override {}
    void know_more(const std::vector<messages::ControlNode>&, const std::vector<std::string>&) override {}
    void stop() override {}
    std::vector<std::pair<std::string, messages::Control>> sent;
  };

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }
  template <typename... Words>
  void ask(Words... words) {
    caf::send_as(listener_, chief_, words...);
  }

  RuntimeOptions options_;
  VirtualClock clock_;
  RecordingNetwork network_;
  caf::actor_system_config config_;
  caf::actor_system system_;
  caf::actor listener_, chief_;
  std::optional<RunEnded> ended_;
  std::vector<CheckpointDone> checkpoints_;
  std::string status_;
};

}  // namespace troupe::actors::testing
