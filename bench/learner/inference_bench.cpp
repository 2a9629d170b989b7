// The policy's forward pass, 17 observations to 6 actions through 256-256-256, on one thread, from the caller's
// observations to the caller's actions. The value is calls per second. The bf16 rows take bfloat16 operands in matrix
// products (PolicyOptions::compile.compute, off by default) and stand beside the same float32 rivals.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/core/rng.hpp>

namespace troupe::learner {
namespace {

void policy_forward(benchmark::State& state, std::int64_t rows, DType compute) {
  d4pg::Options options;
  options.environment = {
      .observation_size = 17, .action_low = {-1, -1, -1, -1, -1, -1}, .action_high = {1, 1, 1, 1, 1, 1}};
  const std::unique_ptr<Policy> policy =
      d4pg::make_policy(options, {.rows = rows, .compile = {.compute = compute}}).value();
  Rng rng(1);
  BatchBuffer observations(policy->columns().inputs, rows), actions(policy->columns().outputs, rows);
  for (float& x : observations.mutable_view().as<float>(0)) x = static_cast<float>(rng.normal());
  const BatchView asked = observations.view();
  for ([[maybe_unused]] auto _ : state) {
    policy->act(asked, actions.mutable_view()).value();
    benchmark::DoNotOptimize(actions.mutable_view().columns[0].data());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("calls/s");
}

BENCHMARK_CAPTURE(policy_forward, policy_batch_1, 1, DType::kF32)->Name("policy_batch_1")->MinTime(1);
BENCHMARK_CAPTURE(policy_forward, policy_batch_16, 16, DType::kF32)->Name("policy_batch_16")->MinTime(1);
BENCHMARK_CAPTURE(policy_forward, policy_batch_256, 256, DType::kF32)->Name("policy_batch_256")->MinTime(1);
BENCHMARK_CAPTURE(policy_forward, policy_bf16_batch_16, 16, DType::kBF16)->Name("policy_bf16_batch_16")->MinTime(1);
BENCHMARK_CAPTURE(policy_forward, policy_bf16_batch_256, 256, DType::kBF16)->Name("policy_bf16_batch_256")->MinTime(1);

}  // namespace
}  // namespace troupe::learner

BENCHMARK_MAIN();
