#pragma once
// Networks as Acme builds them for the control suite, which D4PG and DMPO are published with: a LayerNormMLP under a
// linear head.
#include <cstdint>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::control {

struct LayerNormMlp {
  std::vector<std::int64_t> sizes;  ///< of the hidden layers, at least one
  Activation activation = Activation::kElu;
  int devices = 1;  ///< over which the layers are split, in stages; the head belongs on the last one
};

/// What the head reads: a linear layer with layer norm and tanh behind it, then linear layers with the activation. They
/// are called layer0, layer1 and so on, and norm. x: [rows, n].
Var layer_norm_mlp(Graph& graph, ParamGroup group, const LayerNormMlp& layers, Var x);

/// Acme's NearZeroInitializedLinear of `size` columns, `name`/weight and `name`/bias: what it gives is hardly anything
/// at the beginning, so first actions lie in the middle of their range.
Var near_zero_linear(Graph& graph, ParamGroup group, std::string_view name, std::int64_t size, Activation kind, Var x);

/// The logits of a value distribution: [rows, atoms]. observation: [rows, o], action: [rows, a].
Var categorical_critic(Graph& graph, ParamGroup group, const LayerNormMlp& layers, std::int64_t atoms, Var observation,
                       Var action);
/// At least two atoms over finite, rising bounds. Errors: kInvalidArgument naming the key; messages begin with `where`,
/// the algorithm.
Status validate_support(const Support& support, std::string_view where);

}  // namespace troupe::learner::control
