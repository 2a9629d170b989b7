#pragma once
// Multi-layer perceptrons as PyTorch's users build them, which TD3 and SAC are published with (CleanRL).
#include <cstdint>
#include <string_view>
#include <vector>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::control {

/// Layers of what x is, [rows, n]: `name`/layer0/weight, `name`/layer0/bias and so on, each with `kind` behind it. All
/// start uniform in +-1/sqrt(n), PyTorch's default of nn.Linear.
Var mlp(Graph& graph, ParamGroup group, std::string_view name, const std::vector<std::int64_t>& sizes, Activation kind,
        Var x);
/// One such layer of `size` columns, `name`/weight and `name`/bias.
Var dense(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Activation kind, Var x);

/// Two values of the same actions, each [rows], by networks of their own (Fujimoto et al. 2018, section 4.2). The
/// second one is built on the graph's device after that which is set, so that model parallelism has something to split.
struct TwinValues {
  Var first, second;
};
TwinValues twin_critics(Graph& graph, ParamGroup group, const std::vector<std::int64_t>& sizes, Activation kind,
                        Var observation, Var action);

}  // namespace troupe::learner::control
