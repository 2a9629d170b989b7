#pragma once
// The account of an agent's environment steps: how many each env actor has taken over all its incarnations, and how
// many more it may take, so that all of them together take `max_env_steps`, whoever is killed, comes, goes or waits. A
// passive part of the metrics role, which is the one that knows the whole run's numbers; env actors ask it through
// actors/roles/step_budget.hpp.
//
// An env actor gets a part of what is left, never more than some seconds' worth, so it goes on while nobody answers,
// and parts get smaller towards the end. The rest of the part of one that is gone goes back to the others. The total is
// exact but for what an env actor took after it had last been heard from, when it is killed or its account is.
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

class StepAccount {
 public:
  /// limit: steps of the whole run; 0: none. actors: how many are configured; more may come.
  StepAccount(std::int64_t limit, std::int64_t actors) : limit_(limit), actors_(actors) {}

  /// Answers an env actor. alive: whether the env actor of an index is up. Errors: kInvalidArgument for an index that
  /// no run has.
  Result<messages::StepsGrant> grant(const messages::StepsRequest& request,
                                     const std::function<bool(std::int64_t index)>& alive, Duration now);
  /// An env actor has said elsewhere how many steps all its incarnations have taken.
  void heard(std::int64_t index, std::int64_t taken);

  /// The steps of all env actors.
  std::int64_t taken() const;

  /// agent: its name, with which the counters begin; empty: they begin without one.
  void save(const std::string& agent, std::vector<messages::Counter>& counters) const;
  /// Goes on from what save() gave. Until all env actors have said how far they are, and at most for a moment, nothing
  /// new is granted: they may be further than the checkpoint.
  void restore(const std::string& agent, const std::vector<messages::Counter>& counters);

 private:
  struct Actor {
    std::int64_t taken = 0;
    std::int64_t allowed = 0;
    bool heard = false;
  };
  bool knows_all(Duration now);

  std::int64_t limit_;
  std::int64_t actors_;
  std::map<std::int64_t, Actor> by_index_;
  bool restored_ = false;
  Duration restored_at_{-1};  ///< when it was first asked after that
};

/// Environment steps of an agent (its name as above), from the counters of all instances in a checkpoint.
std::int64_t total_env_steps(std::span<const messages::Counter> counters, const std::string& agent,
                             const std::string& actor_role, const std::string& metrics_role);

}  // namespace troupe::actors
