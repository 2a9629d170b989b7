#include <troupe/learner/engine/apply_update.hpp>

#include <algorithm>
#include <cmath>

#include <troupe/learner/engine/flush_denormals.hpp>

namespace troupe::learner {

UpdateRule::UpdateRule(const OptimizerSpec& spec, std::int64_t update, double rate_factor) {
  const double rate = rate_factor * learning_rate(spec, update);
  std::visit([&](const auto& rule) { set(rule, rate, update); }, spec.rule);
}

void UpdateRule::set(const Adam& adam, double rate, std::int64_t update) {
  const double t = static_cast<double>(update + 1);
  pass_ = Pass::kAdam;
  constants_.step_size = static_cast<float>(rate / (1 - std::pow(adam.beta1, t)));
  constants_.weight_decay = static_cast<float>(rate * adam.weight_decay);
  constants_.inverse_sqrt_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(adam.beta2, t)));
  constants_.beta1 = static_cast<float>(adam.beta1);
  constants_.beta2 = static_cast<float>(adam.beta2);
  constants_.epsilon = static_cast<float>(adam.epsilon);
}

void UpdateRule::set(const Sgd& sgd, double rate, std::int64_t) {
  constants_.step_size = static_cast<float>(rate);
  constants_.momentum = static_cast<float>(sgd.momentum);
  constants_.nesterov = sgd.nesterov;
  constants_.weight_decay = static_cast<float>(sgd.weight_decay);
}

void UpdateRule::set(const RmsProp& rms, double rate, std::int64_t update) {
  const bool tensorflow = rms.form == RmsProp::Form::kTensorFlow;
  pass_ = Pass::kRmsProp;
  constants_.step_size = tensorflow ? 1 : static_cast<float>(rate);
  constants_.inner_rate = tensorflow ? static_cast<float>(rate) : 1;
  constants_.beta2 = static_cast<float>(rms.decay);
  constants_.momentum = static_cast<float>(rms.momentum);
  constants_.weight_decay = static_cast<float>(rms.weight_decay);
  constants_.epsilon = tensorflow ? 0 : static_cast<float>(rms.epsilon);
  // The slot starts at 0. A mean square that started at 1 is larger by decay^t, the same everywhere.
  const double start = std::pow(rms.decay, static_cast<double>(update + 1));
  constants_.inside_root = tensorflow ? static_cast<float>(rms.epsilon + start) : 0;
}

// SGD with momentum, whose gradient and its decay are scaled before momentum adds them up.
void UpdateRule::set(const Lars& lars, double rate, std::int64_t) {
  constants_.gradient_scale = static_cast<float>(rate);
  constants_.step_size = 1;
  constants_.momentum = static_cast<float>(lars.momentum);
  constants_.weight_decay = static_cast<float>(lars.weight_decay);
}

void UpdateRule::apply(const UpdateArgs& args, std::span<const UpdateStretch> stretches, std::int64_t offset) const {
  const FlushDenormals flush;  // shards are no threads of a program
  const bool alike = std::ranges::all_of(stretches, [&](const UpdateStretch& stretch) {
    return stretch.rate == 1 && (stretch.decays || constants_.weight_decay == 0);
  });
  if (alike) return apply_range(args, {});
  for (const UpdateStretch& stretch : stretches) {
    UpdateArgs part = args;
    part.begin = std::max(args.begin, stretch.begin - offset);
    part.end = std::min(args.end, stretch.end - offset);
    if (part.begin < part.end) apply_range(part, stretch);
  }
}

void UpdateRule::apply_range(UpdateArgs args, const UpdateStretch& stretch) const {
  const float rate = constants_.gradient_scale * static_cast<float>(stretch.rate);
  args.gradient_scale *= rate;
  args.weight_decay = stretch.decays ? constants_.weight_decay * rate : 0;
  args.step_size = constants_.step_size;
  args.inverse_sqrt_correction = constants_.inverse_sqrt_correction;
  args.beta1 = constants_.beta1;
  args.beta2 = constants_.beta2;
  args.epsilon = constants_.epsilon;
  args.momentum = constants_.momentum;
  args.nesterov = constants_.nesterov;
  args.inner_rate = constants_.inner_rate;
  args.inside_root = constants_.inside_root;
  switch (pass_) {
    case Pass::kSgd:
      return kernels_f32().sgd(args);
    case Pass::kAdam:
      return kernels_f32().adam(args);
    case Pass::kRmsProp:
      return kernels_f32().rms_prop(args);
  }
}

}  // namespace troupe::learner
