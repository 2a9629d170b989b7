#pragma once
// The metrics role: gathers every instance's report and every episode's return, makes rows of them and gives these to a
// sink, and with them each evaluation, as it comes. The only role that knows the whole run's numbers.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/roles/step_account.hpp>
#include <troupe/actors/runtime/instance_report.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

// Counters of its state: how far it knew the run to be, and the run's clock at the newest row that is older.
inline constexpr const char* kKnownLearnerSteps = "learner_steps";
inline constexpr const char* kNewestRowMs = "newest_row_ms";
inline constexpr const char* kKnownStepsOf = "known_steps/";  ///< followed by the role that trains what is evaluated

/// An agent's roles, as the metrics role knows them.
struct MeasuredAgent {
  std::string name;  ///< empty: the run has only this one
  std::string actor_role, learner_role;
  std::int64_t actors = 1;         ///< instances of actor_role
  std::int64_t max_env_steps = 0;  ///< of all of them together; 0: no limit
  std::string episodes_port = "episodes", steps_port = "steps";
};

struct MetricsActorOptions {
  MetricSink* sink = nullptr;  ///< outlives the role; one thread at a time
  Duration period = std::chrono::seconds(1);
  double wall_s = 0;  ///< of earlier starts of the run; added to every row
  std::vector<MeasuredAgent> agents;
  std::vector<std::string> replica_roles;         ///< without agents their steps are the run's learner steps
  std::map<std::string, std::string> evaluators;  ///< roles that evaluate; each with the role that it evaluates
  /// Roles that go on from a checkpoint or a journal when they are restarted, and their counters with them; those of
  /// all others begin at zero with each incarnation.
  std::set<std::string> kept_roles;
  /// Roles whose instances train together and so all count the same steps: the largest counts, not the sum.
  std::set<std::string> group_roles;
};

/// Ports: in reports (stream, Metrics); for each agent episodes (stream, Episode) and steps (request, StepsRequest), by
/// which env actors ask its StepAccount how many steps they may take; with evaluators evaluations (stream, Evaluation).
/// Env and learner steps of a row are those of all agents; of an agent with a name they are beside them as
/// "NAME/env_steps" and "NAME/learner_steps".
/// A row a period: from counters their rates "<role>/<name>_per_s", summed over instances; from gauges "<role>/<name>",
/// averaged, and from sums the same, summed; "actor/episode_return", averaged over the period's episodes; and apart
/// from these the traffic of every port. All values of a row come from the same reports as its counts of steps. Rows
/// wait for the first reports of env actors and learners, or of all replica groups, and a resumed run's first one up to
/// three periods more for those of all env actors: so its progress does not go back.
/// An evaluation is recorded as soon as it comes, and its credit goes back after that. In a run that goes on with
/// agents it waits for the first reports, without which nobody knows which step a version is of.
class MetricsActor final : public Role {
 public:
  static RoleSpec spec(std::string name, const MetricsActorOptions& options);

  explicit MetricsActor(MetricsActorOptions options);

  Result<Progress> step(RoleContext& context) override;
  /// The env actors' steps, so that neither a restart of this role nor one of theirs takes the run's progress back, and
  /// which rows are older.
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  /// Whether there is room for the names in the report, which stay known from then on. Errors: kInvalidArgument.
  Status check_names(const InstanceReport& report);
  /// What an agent has of its own.
  struct Measured {
    MeasuredAgent agent;
    StepAccount account;
    std::vector<double> returns = {};  ///< of episodes, since the last row
  };
  Status grant_steps(RoleContext& context, Measured& of);
  Measured* agent_of(const std::string& actor_role);
  void take_report(InstanceReport report);
  /// Env actors and learners have reported: there is progress to write a row with.
  bool has_progress() const;
  /// How far the versions of a role run ahead of its steps: a restarted learner never gives a version out twice.
  std::int64_t versions_ahead(const std::string& role) const;
  Status record_evaluations(RoleContext& context, double wall_s);
  /// Whether there is room for the names of its values, and the evaluator is known. Errors: kInvalidArgument.
  Status check(const messages::EvaluationReport& report);
  Status record(messages::EvaluationReport report, double wall_s);
  Status write_row(double wall_s);
  /// Counters by "<role>/<name>", summed over instances and incarnations; for a group it is the largest instead.
  std::map<std::string, double> totals() const;
  /// The same of one role.
  std::int64_t steps(const std::map<std::string, double>& totals, const std::string& role) const;
  MetricRow row_at(double wall_s) const;
  /// Rates of what instances count, by the difference to the row before, and of their ports.
  void add_rates(const std::map<std::string, double>& totals, MetricRow& row) const;
  void add_values_of_now(MetricRow& row) const;

  MetricsActorOptions options_;
  std::vector<Measured> agents_;
  std::uint64_t bad_requests_ = 0;
  struct Instance {
    Report newest;
    std::map<std::string, double> carried;  ///< counters of earlier incarnations, unless they went on
    bool reported = false;
  };
  std::map<std::pair<std::string, std::int64_t>, Instance> instances_;  ///< by role and index
  std::set<std::string> names_;                                         ///< "<role>/<name>" of all reports
  std::set<std::string> value_names_;                                   ///< of evaluations
  std::map<std::string, double> previous_totals_;
  bool goes_on_ = false;    ///< with steps of before, which its env actors have restored too
  int waited_periods_ = 0;  ///< with the first row of such a run, whose steps must not be fewer
  double previous_wall_s_ = 0;
  double newest_wall_s_ = 0;  ///< of the rows that it has written
  Duration next_row_{-1};
};

}  // namespace troupe::actors
