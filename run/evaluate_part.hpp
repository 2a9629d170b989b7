#pragma once
// What has been learnt, by the measure of the run's own evaluators: when a run ends (run/train.hpp), and later for
// whoever asks (`troupe eval`).
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

/// Plays options.evaluator.episodes whole episodes of the agent's task without exploration noise, from start states
/// that follow from `seed`: "return", "return_std" and "episodes". Errors: those of values, environment and policy.
Result<std::vector<Scalar>> evaluate_policy(const AgentOptions& options, std::uint64_t seed,
                                            const PolicyValues& values);

/// Evaluates a part as the run does after its last step: of an agent "return", "return_std" and "episodes" as above, of
/// a replica group what its evaluator reports. Blocks; a GAN's judge learns its own classifier first, some seconds
/// long. Errors: those of the data, the judge and the values.
Result<std::vector<Scalar>> evaluate_part(const TrainOptions& options, const TrainedPart& part);

}  // namespace troupe::actors
