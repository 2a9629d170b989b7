#include <troupe/learner/engine/policy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::learner {

Policy::Policy(std::unique_ptr<Program> program, std::int64_t rows, std::int64_t observation_size,
               std::int64_t action_size)
    : program_(std::move(program)),
      parameters_(&program_->group(0)),
      rows_(rows),
      observation_size_(observation_size),
      action_size_(action_size),
      observations_(static_cast<std::size_t>(rows * observation_size)) {}

Result<std::unique_ptr<Policy>> Policy::make(const Network& network, std::int64_t observation_size,
                                             const PolicyOptions& options) {
  if (options.rows < 1) {
    return Error{Code::kInvalidArgument, fmt::format("policy: rows is {}, expected at least 1", options.rows)};
  }
  Graph graph(options.rows);
  const Var action = network(graph, graph.input("observation", Shape{observation_size}));
  graph.output("action", action);
  TROUPE_TRY(graph.status());
  const Shape shape = graph.spec(action).shape;
  TROUPE_ASSIGN(std::unique_ptr<Program> program, Program::compile(graph, options.compile));
  if (program->group_count() != 1 || shape.rank() != 2) {
    return Error{Code::kInvalidArgument,
                 fmt::format("policy: {} parameter groups and actions {}, expected one and [{}, n]",
                             program->group_count(), shape.to_string(), options.rows)};
  }
  std::unique_ptr<Policy> policy(new Policy(std::move(program), options.rows, observation_size, shape[1]));
  TROUPE_TRY(policy->program_->bind("observation", std::span<const float>(policy->observations_)));
  return policy;
}

Status Policy::load(std::span<const float> parameters, std::uint64_t fingerprint) {
  TROUPE_TRY(parameters_->load(parameters, fingerprint));
  program_->parameters_changed();
  return {};
}

Status Policy::act(std::span<const float> observations, std::span<float> actions) {
  const auto rows = static_cast<std::int64_t>(actions.size()) / action_size_;
  if (rows < 1 || rows > rows_ || actions.size() != static_cast<std::size_t>(rows * action_size_) ||
      observations.size() != static_cast<std::size_t>(rows * observation_size_)) {
    return Error{Code::kShapeMismatch,
                 fmt::format("act: {} observation and {} action values, expected n times {} and {} with n in 1..{}",
                             observations.size(), actions.size(), observation_size_, action_size_, rows_)};
  }
  std::copy(observations.begin(), observations.end(), observations_.begin());
  TROUPE_TRY(program_->run());
  const std::span<const float> result = program_->output("action");
  std::copy_n(result.begin(), actions.size(), actions.begin());
  return {};
}

}  // namespace troupe::learner
