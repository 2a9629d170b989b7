#pragma once
// What a process finds in its environment about the cluster it is part of. Each of the readers below is a function of
// the variables alone, so tests need no scheduler; own_place() chooses the one that applies.
#include <map>
#include <string>
#include <vector>

#include <troupe/apps/cluster/cluster_spec.hpp>

namespace troupe::apps {

/// Variables by name. HOSTNAME is always there: it is asked of the system where the variable is not set.
using Environment = std::map<std::string, std::string, std::less<>>;
Environment process_environment();

/// From the first of these that is there: TF_CONFIG, Slurm's variables, Kubernetes' variables. `run`: the name of the
/// run where the environment does not give one. Errors: kNotFound naming all the ways when none is there; else those
/// of the reader.
Result<OwnPlace> own_place(const Environment& environment, const actors::TrainOptions& options, const std::string& run);

/// TF_CONFIG as tf.distribute defines it, {"cluster": {"chief": ["host:port"], "worker": [...], "ps": [...],
/// "evaluator": [...]}, "task": {"type": "worker", "index": 0}}. The chief also hosts the learner; worker i is node i
/// of the env actors; ps i hosts shares of replay, ps 0 the parameter store. What has no task is with the chief.
/// "master" is an older word for chief; without either, worker 0 is the chief too. Errors: kInvalidArgument with one
/// line a mistake, each beginning with TF_CONFIG.
Result<OwnPlace> tf_config_place(const Environment& environment, const actors::TrainOptions& options,
                                 const std::string& run);

/// One task of a Slurm step is one node, in the order of ranks: see place_on(). Ports follow from the job's number and
/// the task's place on its host, so that jobs do not meet. The run is called slurm-<job>.
/// Errors: kInvalidArgument: a variable that is missing or malformed, a rank beyond the tasks, tasks that are not
/// distributed in blocks, too few or too many tasks for the roles.
Result<OwnPlace> slurm_place(const Environment& environment, const actors::TrainOptions& options);

/// "n[01-03,7],gpu-a" as host names, in order. Errors: kInvalidArgument, also for more than 65536 hosts.
Result<std::vector<std::string>> expand_host_list(const std::string& text);
/// "2(x3),1" as {2, 2, 2, 1}. Errors as above.
Result<std::vector<std::int64_t>> expand_counts(const std::string& text);

/// One pod of an indexed Job (or of a StatefulSet) is one node, in the order of indices: see place_on(). TROUPE_NODES
/// is the number of pods; this one's index is JOB_COMPLETION_INDEX or the end of its host name, <job>-<index>. Pods
/// find each other as <job>-<index>.<service>, where the headless Service is TROUPE_SERVICE (default: called like the
/// job), all on TROUPE_PORT (default 7600). The run is called like the job. Where the pods are of several templates, as
/// in a JobSet, TROUPE_PODS lists their host names in order ("cart-gpu-0-0,cart-actors-0-[0-3]", as Slurm lists hosts)
/// instead, TROUPE_SERVICE must be there, and the run is called like it. Errors: kInvalidArgument as above.
Result<OwnPlace> kubernetes_place(const Environment& environment, const actors::TrainOptions& options);

}  // namespace troupe::apps
