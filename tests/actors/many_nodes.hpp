#pragma once
// A run of many nodes on simulated hosts. Each of them has one small role that sends to a hub and reports; no two of
// them have anything to do with each other. What chief and nodes say to each other is counted. Used by
// many_nodes_test.cpp and bench/actors/nodes_bench.cpp; real_nodes.hpp is the same with processes.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <troupe/core/log.hpp>
#include <troupe/tests/actors/simulation.hpp>
#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors::testing {

class ManyNodes {
 public:
  /// What is seen from outside.
  struct Seen {
    std::map<std::int64_t, Duration> newest;  ///< when the hub last got something of each worker
    Duration longest_gap{};                   ///< between two words of any worker
    std::int64_t words = 0;
  };

  explicit ManyNodes(std::int64_t workers) : workers_(workers) {
    log::set_level(log::Level::kOff);
    RoleSpec worker;
    worker.name = "worker";
    worker.count = workers;
    worker.outlets = {{"words", "Word"}};
    worker.make = factory([](const RoleIdentity& who) { return std::make_unique<Worker>(who.index); });
    worker.restart.max_restarts = 1000;
    RoleSpec hub;
    hub.name = "hub";
    hub.inlets = {{"words", "Word"}};
    hub.make = factory([seen = seen](const RoleIdentity&) { return std::make_unique<Hub>(seen); });
    hub.completes_run = true;
    hub.restart.max_restarts = 1000;
    RoleSpec reports;
    reports.name = "reports";
    reports.inlets = {{"reports", "Metrics"}};
    reports.make = factory([](const RoleIdentity&) { return std::make_unique<Reports>(); });
    topology_.roles = {worker, hub, reports};
    topology_.channels = {{"worker", "words", "hub", "words", 2}};
    topology_.reports = PortName{"reports", "reports"};
    SimulationOptions options;
    options.seed = 1;
    options.topology = &topology_;
    options.placement = {{kChiefNode, {{"reports", {0}}}}, {"hub", {{"hub", {0}}}}};
    for (std::int64_t i = 0; i < workers; ++i) {
      options.placement.push_back({name(i), {{"worker", {static_cast<std::uint32_t>(i)}}}});
    }
    options.checkpoint_period = Duration::zero();
    options.cut_deadline = std::chrono::seconds(5);
    options.orphaned_after = std::chrono::seconds(60);
    simulation_.emplace(options, SimulatedDisk{});
    for (const PlacedNode& node : options.placement) simulation_->start(node.name);
  }

  static std::string name(std::int64_t index) { return fmt::format("w{}", index); }
  Simulation& simulation() { return *simulation_; }
  std::int64_t workers() const { return workers_; }

  /// Lets time pass until the hub has heard of all workers; how long that took. < 0: not within `most`.
  Duration until_all_are_in(Duration most) {
    const Duration start = simulation_->now();
    while (static_cast<std::int64_t>(seen->newest.size()) < workers_ && simulation_->now() - start < most) {
      simulation_->run_until(simulation_->now() + std::chrono::milliseconds(50));
    }
    if (static_cast<std::int64_t>(seen->newest.size()) < workers_) return Duration{-1};
    return simulation_->now() - start;
  }

  /// What is said while `time` passes, for each worker.
  struct Share {
    double control;  ///< messages
    double entries;  ///< in their lists
  };
  Share said_in(Duration time) {
    const SimulatedTraffic before = simulation_->traffic();
    simulation_->run_until(simulation_->now() + time);
    return share(before);
  }
  Share share(const SimulatedTraffic& before) const {
    const SimulatedTraffic after = simulation_->traffic();
    const auto each = [&](std::uint64_t from, std::uint64_t to) {
      return static_cast<double>(to - from) / static_cast<double>(workers_);
    };
    return {each(before.control, after.control), each(before.entries, after.entries)};
  }

  /// A checkpoint; how long it took. < 0: it failed, or was not there after 20 s.
  Duration cut() {
    std::optional<CheckpointDone> done;
    const Duration start = simulation_->now();
    simulation_->checkpoint([&](const CheckpointDone& answer) { done = answer; });
    while (!done && simulation_->now() - start < std::chrono::seconds(20)) {
      simulation_->run_until(simulation_->now() + std::chrono::milliseconds(10));
    }
    return done && !done->error ? simulation_->now() - start : Duration{-1};
  }

  const std::shared_ptr<Seen> seen = std::make_shared<Seen>();

 private:
  class Worker final : public Role {
   public:
    explicit Worker(std::int64_t index) : index_(index) {}
    Result<Progress> step(RoleContext& context) override {
      const Duration now = context.clock().now();
      if (now >= at_ && context.out("words").ready()) {
        context.out("words").send(number_frame(context.pool(), index_));
        at_ = now + std::chrono::seconds(1);
      }
      context.wake_after(std::max(at_ - now, Duration(std::chrono::milliseconds(10))));
      return Progress::kIdle;
    }

   private:
    const std::int64_t index_;
    Duration at_{};
  };

  class Hub final : public Role {
   public:
    explicit Hub(std::shared_ptr<Seen> seen) : seen_(std::move(seen)) {}
    Result<Progress> step(RoleContext& context) override {
      const Duration now = context.clock().now();
      while (!context.in("words").empty()) {
        const auto [found, fresh] = seen_->newest.try_emplace(number_of(context.in("words").take()), now);
        if (!fresh) seen_->longest_gap = std::max(seen_->longest_gap, now - std::exchange(found->second, now));
        ++seen_->words;
      }
      return Progress::kIdle;
    }

   private:
    const std::shared_ptr<Seen> seen_;
  };

  class Reports final : public Role {
   public:
    Result<Progress> step(RoleContext& context) override {
      while (!context.in("reports").empty()) (void)context.in("reports").take();
      return Progress::kIdle;
    }
  };

  const std::int64_t workers_;
  Topology topology_;
  std::optional<Simulation> simulation_;
};

/// What a run of so many nodes says, for each of them.
struct Costs {
  ManyNodes::Share start;        ///< until all are in
  ManyNodes::Share ten_seconds;  ///< in which nothing happens
  ManyNodes::Share cut;
  Duration all_in, cut_took;  ///< as of until_all_are_in() and cut()
  std::vector<std::string> findings;
};

inline Costs costs_of(std::int64_t workers) {
  ManyNodes run(workers);
  Costs costs{};
  costs.all_in = run.until_all_are_in(std::chrono::seconds(20));
  costs.start = run.share({});
  run.simulation().run_until(run.simulation().now() + std::chrono::seconds(5));
  costs.ten_seconds = run.said_in(std::chrono::seconds(10));
  const SimulatedTraffic before = run.simulation().traffic();
  costs.cut_took = run.cut();
  costs.cut = run.share(before);
  costs.findings = run.simulation().findings();
  return costs;
}

}  // namespace troupe::actors::testing
