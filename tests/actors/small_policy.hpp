#pragma once
// A small policy for cartpole's shapes (5 observed values, 1 action), and frames of parameters for it.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/inference.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors::testing {

inline learner::d4pg::Options small_policy_options() {
  learner::d4pg::Options options;
  options.environment = {5, {-1}, {1}};
  options.policy_sizes = {16};
  options.critic_sizes = {16};
  return options;
}

inline learner::PolicyColumns small_columns() { return learner::d4pg::policy_columns(small_policy_options()); }

inline Result<std::unique_ptr<learner::Policy>> small_policy(std::int64_t rows = 1, learner::Device = {}) {
  return learner::d4pg::make_policy(small_policy_options(), {.rows = rows});
}

/// The same rows of floats, as a column of a policy's inputs or outputs.
inline BatchView rows_of(const Signature& signature, std::span<const float> values) {
  return {&signature, static_cast<std::int64_t>(values.size_bytes() / row_bytes(signature)), {std::as_bytes(values)}};
}

/// A call of the small policy, for each five values one row.
inline messages::InferenceRequest request_of(std::uint32_t producer, std::span<const float> observations) {
  static const auto kInputs = std::make_shared<const Signature>(small_columns().inputs);
  return {producer, kInputs, rows_of(*kInputs, observations)};
}

/// Its answer, for each action one row.
inline messages::InferenceAnswer answer_of(std::int64_t version, std::span<const float> actions) {
  static const auto kOutputs = std::make_shared<const Signature>(small_columns().outputs);
  return {version, kOutputs, rows_of(*kOutputs, actions)};
}

/// What a learner might publish for it: different observations get different actions.
inline std::vector<float> small_values() {
  std::vector<float> values(small_policy().value()->values().size());
  Rng rng(5);
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
  return values;
}

inline messages::Frame parameters_frame(messages::FramePool& pool, std::int64_t version) {
  const auto policy = small_policy().value();
  const std::vector<float> published = small_values();
  const auto values = std::as_bytes(std::span(published));
  auto builder =
      messages::ParametersBuilder::make(pool, DType::kF32, static_cast<std::int64_t>(values.size() / sizeof(float)))
          .value();
  std::ranges::copy(values, builder.data().begin());
  return std::move(builder).finish({version, policy->fingerprint(), 0, DType::kF32});
}

inline messages::Frame version_frame(messages::FramePool& pool, std::int64_t version) {
  return messages::make_parameters_version(pool, {version}).value();
}

}  // namespace troupe::actors::testing
