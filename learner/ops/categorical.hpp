#pragma once
// Categorical distributions: classification losses and the distributional critic of C51 and D4PG.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// The atoms of a value distribution: `count` points evenly spaced over [low, high].
struct Support {
  double low = 0;
  double high = 0;
  std::int64_t count = 0;
};

/// Over the last dimension, stable (the row's maximum is subtracted).
Var softmax(Var logits);
Var log_softmax(Var logits);
/// -sum(target_probs * log_softmax(logits)) of each row: [rows, n], [rows, n] -> [rows]. No gradient to target_probs.
Var softmax_cross_entropy(Var logits, Var target_probs);
/// Mean of the distribution softmax(logits) over the support: [rows, count] -> [rows].
Var categorical_mean(Var logits, const Support& support);
/// The loss of C51 (Bellemare et al. 2017, Alg. 1) and D4PG (Eq. 3): the cross-entropy of softmax(logits) to the
/// distribution of reward + discount * z, z by softmax(next_logits), projected onto the support. logits, next_logits:
/// [rows, count]; reward, discount: [rows], discount is gamma^n and 0 at the end of an episode. Returns [rows], never
/// negative; NaN where reward or discount is one or the discount is infinite, so that the step is skipped and counted.
/// Only the logits have a gradient.
Var categorical_td(Var logits, Var next_logits, Var reward, Var discount, const Support& support);

}  // namespace troupe::learner
