#pragma once
// Losses of classifiers and of adversarial training, and how often a classifier is right.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Cross-entropy of each row to its label: logits [rows, n], labels int32 [rows] in 0..n-1 -> [rows]. With smoothing s
/// the target is (1 - s) onehot + s / n (Szegedy et al. 2016, section 7; PyTorch's label_smoothing). A label outside
/// its range gives NaN, in the gradient too, so that the step is skipped and counted.
Var label_cross_entropy(Var logits, Var labels, double smoothing = 0);
/// 1 in rows whose largest logit (the first of equal ones) is the label's, else 0: [rows, n], int32 [rows] -> [rows].
/// Its mean is the accuracy. Has no gradient.
Var is_correct(Var logits, Var labels);
/// The same for the `count` largest logits, of equal ones the first: top-5 accuracy is the mean of is_in_top(.., ..,
/// 5).
Var is_in_top(Var logits, Var labels, std::int64_t count);

/// mean(max(0, 1 - real)) + mean(max(0, 1 + fake)): the discriminator's loss (Miyato et al. 2018, Eq. 16). Logits of
/// any shape, split by rows.
Var hinge_discriminator(Var real_logits, Var fake_logits);
/// -mean(fake): the generator's loss (Eq. 17).
Var hinge_generator(Var fake_logits);

}  // namespace troupe::learner
