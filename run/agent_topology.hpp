#pragma once
// An agent as roles and channels of a topology, as the picture in docs/architecture.md draws it: env actors, replay,
// learners, parameter store, evaluator, and inference servers where they are wanted. What these are follows from its
// options; what they do with an environment, from its algorithm.
#include <string>
#include <string_view>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/episode_runner.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/algorithms/agent/algorithm.hpp>
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

/// An agent with what its algorithm has made of its environment: what all of its roles, and whoever evaluates, renders
/// or exports, have in common.
struct Agent {
  Algorithm algorithm;
  Signature given;                         ///< an observation with the configuration's wrappers alone
  envs::MakeEnvironment make_environment;  ///< with all wrappers: the configuration's, then the algorithm's
  envs::EnvSpec environment;               ///< of these
  envs::MakeEnvironment make_evaluation;   ///< what the policy is evaluated and filmed in, with wrappers likewise
  envs::EnvSpec evaluation;                ///< of these: the same columns and the same action
  Signature item, batch;                   ///< a row of replay, and what the replica is trained on
  MakePolicy make_policy;
};
/// Errors, beginning with the option: those of the environments, their wrappers and the algorithm; kInvalidArgument
/// when evaluations have another observation or action than the policy is made for.
Result<Agent> make_agent(const AgentOptions& options);

/// The evaluator's episodes.
EpisodeRunnerOptions evaluation_episodes(const AgentOptions& options, const Agent& agent);
/// The learners as a group of replicas, with what follows from the agent and the run. Errors: kInvalidArgument,
/// beginning with the option.
Result<ReplicaGroupOptions> learner_group(const TrainOptions& run, const AgentOptions& options);

/// How a role is restarted that may be, as [supervisor] says; given up while others of its role live.
RestartPolicy restart_policy(const SupervisorOptions& supervisor);

/// Ports of the metrics role that one of several agents has for itself: "alice-steps".
std::string metrics_port(const AgentOptions& agent, std::string_view port);

/// Appends the agent; `metrics` is the name of the metrics role. It completes its part of the run when its env actors
/// or its learners have taken their steps. Errors: kInvalidArgument or those of the parts, beginning with the option.
Status add_agent(Topology& topology, const TrainOptions& run, const AgentOptions& options, const std::string& metrics);

}  // namespace troupe::actors
