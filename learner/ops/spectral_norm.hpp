#pragma once
// Spectral normalisation (Miyato et al. 2018, arXiv 1802.05957): bounds a layer's Lipschitz constant.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// weight / sigma with one power iteration (Alg. 1 of the paper): v = weight u / |weight u|, u' = weight^T v /
/// |weight^T v|, sigma = v^T weight u'. Gradients pass through weight and sigma with u and v held fixed, as the paper
/// says. weight: [in, out]; u: state [out], Init::normal(1), which becomes u' at the end of the step when `training`.
/// Replicas stay equal, because u moves by weights alone. A length below 1e-12 counts as that (PyTorch's).
/// Use the result for all passes of a step; calling again moves u again.
Var spectral_norm(Var weight, Var u, bool training = true);

}  // namespace troupe::learner
