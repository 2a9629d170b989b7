#pragma once
// A small policy for cartpole's shapes (5 observed values, 1 action), and frames of parameters for it.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors::testing {

inline Result<std::unique_ptr<learner::Policy>> small_policy(std::int64_t rows = 1) {
  learner::d4pg::Options options;
  options.environment = {5, {-1}, {1}};
  options.policy_sizes = {16};
  options.critic_sizes = {16};
  return learner::d4pg::make_policy(options, {.rows = rows});
}

/// The policy's own first values, as if the learner had published them.
inline messages::Frame parameters_frame(messages::FramePool& pool, std::int64_t version) {
  const auto policy = small_policy().value();
  const auto values = std::as_bytes(policy->parameters().values());
  auto builder =
      messages::ParametersBuilder::make(pool, DType::kF32, static_cast<std::int64_t>(values.size() / sizeof(float)))
          .value();
  std::ranges::copy(values, builder.data().begin());
  return std::move(builder).finish({version, policy->parameters().fingerprint(), 0, DType::kF32});
}

inline messages::Frame version_frame(messages::FramePool& pool, std::int64_t version) {
  return messages::make_parameters_version(pool, {version}).value();
}

}  // namespace troupe::actors::testing
