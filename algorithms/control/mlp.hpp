#pragma once
// Multi-layer perceptrons as PyTorch's users build them, which TD3, SAC and DrQ-v2 are published with.
#include <cstdint>
#include <string_view>
#include <vector>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::control {

/// How layers start: all numbers uniform in +-1/sqrt(n), PyTorch's default of nn.Linear with n inputs; or orthogonal
/// weights and biases of 0 (DrQ, DrQ-v2, PPO).
enum class DenseInit : std::uint8_t { kPyTorch, kOrthogonal };

/// Layers of what x is, [rows, n]: `name`/layer0/weight, `name`/layer0/bias and so on, each with `kind` behind it.
Var mlp(Graph& graph, ParamGroup group, std::string_view name, const std::vector<std::int64_t>& sizes, Activation kind,
        Var x, DenseInit init = DenseInit::kPyTorch);
/// One such layer of `size` columns, `name`/weight and `name`/bias.
Var dense(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Activation kind, Var x,
          DenseInit init = DenseInit::kPyTorch);

/// Two values of the same actions, each [rows], by networks of their own (Fujimoto et al. 2018, section 4.2). The
/// second one is built on the graph's device after that which is set, so that model parallelism has something to split.
struct TwinValues {
  Var first, second;
};
TwinValues twin_critics(Graph& graph, ParamGroup group, const std::vector<std::int64_t>& sizes, Activation kind,
                        Var observation, Var action, DenseInit init = DenseInit::kPyTorch);

}  // namespace troupe::learner::control
