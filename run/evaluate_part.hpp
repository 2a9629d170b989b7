#pragma once
// Measures what has been learnt as the run's own evaluators do, when a run ends (run/train.hpp) and whenever somebody
// asks (`troupe eval`).
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/learner/graph/param_buffer.hpp>
#include <troupe/run/train.hpp>
#include <troupe/run/train_options.hpp>
#include <troupe/run/trained_part.hpp>

namespace troupe::actors {

/// The flat values of the policy, in its layout.
using PolicyValues = std::function<Result<std::vector<float>>(const learner::ParamLayout&)>;

/// Plays options.evaluator.episodes whole episodes of what the agent is evaluated in, without exploration noise, from
/// start states that follow from `seed`: "return", "return_std" and "episodes". stop: null, or set by anybody to end
/// it. Errors: those of values, environment and policy; kCancelled: it was stopped.
Result<std::vector<Scalar>> evaluate_policy(const AgentOptions& options, std::uint64_t seed, const PolicyValues& values,
                                            const std::atomic<bool>* stop = nullptr);

/// Evaluates a part as the run does after its last step. An agent has "return", "return_std" and "episodes" as above, a
/// replica group what its evaluator reports. Blocks; a GAN's judge first learns its own classifier, which takes some
/// seconds. Errors: those of the data, the judge and the values.
Result<std::vector<Scalar>> evaluate_part(const TrainOptions& options, const TrainedPart& part);

}  // namespace troupe::actors
