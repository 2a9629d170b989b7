#include <troupe/learner/engine/apply_update.hpp>

#include <algorithm>
#include <cmath>

namespace troupe::learner {

UpdateRule::UpdateRule(const OptimizerSpec& spec, std::int64_t update, double rate_factor)
    : adam_(std::holds_alternative<Adam>(spec.rule)) {
  const double rate = rate_factor * learning_rate(spec, update);
  if (const Adam* adam = std::get_if<Adam>(&spec.rule)) {
    const double t = static_cast<double>(update + 1);
    constants_.step_size = static_cast<float>(rate / (1 - std::pow(adam->beta1, t)));
    constants_.weight_decay = static_cast<float>(rate * adam->weight_decay);
    constants_.inverse_sqrt_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(adam->beta2, t)));
    constants_.beta1 = static_cast<float>(adam->beta1);
    constants_.beta2 = static_cast<float>(adam->beta2);
    constants_.epsilon = static_cast<float>(adam->epsilon);
  } else {
    const Sgd& sgd = std::get<Sgd>(spec.rule);
    constants_.step_size = static_cast<float>(rate);
    constants_.momentum = static_cast<float>(sgd.momentum);
    constants_.nesterov = sgd.nesterov;
    constants_.weight_decay = static_cast<float>(sgd.weight_decay);
  }
}

void UpdateRule::apply(const UpdateArgs& args, std::span<const DecayStretch> decay, std::int64_t offset) const {
  const bool all = std::ranges::all_of(decay, &DecayStretch::decays);
  if (constants_.weight_decay == 0 || all) return apply_range(args, constants_.weight_decay);
  for (const DecayStretch& stretch : decay) {
    UpdateArgs part = args;
    part.begin = std::max(args.begin, stretch.begin - offset);
    part.end = std::min(args.end, stretch.end - offset);
    if (part.begin < part.end) apply_range(part, stretch.decays ? constants_.weight_decay : 0);
  }
}

void UpdateRule::apply_range(UpdateArgs args, float weight_decay) const {
  args.step_size = constants_.step_size;
  args.weight_decay = weight_decay;
  args.inverse_sqrt_correction = constants_.inverse_sqrt_correction;
  args.beta1 = constants_.beta1;
  args.beta2 = constants_.beta2;
  args.epsilon = constants_.epsilon;
  args.momentum = constants_.momentum;
  args.nesterov = constants_.nesterov;
  adam_ ? kernels_f32().adam(args) : kernels_f32().sgd(args);
}

}  // namespace troupe::learner
