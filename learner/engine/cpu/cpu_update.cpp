// The end of a step, on all threads: each takes a range of every flat buffer, so no two write the same line.
#include <algorithm>
#include <cmath>

#include <troupe/learner/engine/apply_update.hpp>
#include <troupe/learner/engine/cpu/cpu_program.hpp>
#include <troupe/learner/engine/tree_sum.hpp>

namespace troupe::learner {

std::pair<std::int64_t, std::int64_t> CpuProgram::range(std::int64_t elements, int thread) const {
  const std::int64_t lines = elements / 16, count = pool_.threads();  // 64-byte lines; layouts are whole lines
  return {lines * thread / count * 16, lines * (thread + 1) / count * 16};
}

void CpuProgram::sum_gradients(std::size_t index, int thread) {
  Minimized& minimized = host_.minimized[index];
  const std::vector<const float*>& stripes = gradients_[index].stripes;
  const auto [begin, end] = range(host_.groups[minimized.group].params->layout().elements, thread);
  if (host_.options.compute == DType::kF64) {
    for (std::int64_t i = begin; i < end; ++i) {
      minimized.gradient_f64[static_cast<std::size_t>(i)] = static_cast<float>(
          tree_sum(0, stripes.size(), [&](std::size_t s) { return reinterpret_cast<const double*>(stripes[s])[i]; }));
    }
    return;
  }
  const auto count = static_cast<std::int64_t>(stripes.size());
  if (count == 1) return;
  table_.sum_gradients(stripes.data(), count, minimized.values(), begin, end);
}

void CpuProgram::sum_squares(std::size_t index, int thread) {
  Minimized& minimized = host_.minimized[index];
  const auto count = static_cast<std::size_t>(pool_.threads()), t = static_cast<std::size_t>(thread);
  const std::size_t all = minimized.blocks.size();
  for (std::size_t b = all * t / count; b < all * (t + 1) / count; ++b) {
    const Stretch& block = minimized.blocks[b];
    gradients_[index].squares[b] = table_.sum_squares(minimized.values(), block.begin, block.end);
  }
  if (!minimized.lars) return;
  minimized.lars->sum(table_, host_.groups[minimized.group].params->values().data(), minimized.values(), t, count);
}

bool CpuProgram::finite() const {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (host_.idle(host_.minimized[i])) continue;
    if (!std::ranges::all_of(gradients_[i].squares, [](double squares) { return std::isfinite(squares); }))
      return false;
  }
  return true;
}

Status CpuProgram::reduce_bucket(const GradientExchange::Bucket& bucket) {
  const Minimized& m = host_.minimized[bucket.minimized];
  if (host_.idle(m)) return {};
  const std::vector<const float*>& stripes = gradients_[bucket.minimized].stripes;
  const auto count = static_cast<std::int64_t>(stripes.size());
  if (count > 1) table_.sum_gradients(stripes.data(), count, m.values(), bucket.begin, bucket.end);
  return m.spec.reduce({{m.values() + bucket.begin, m.values() + bucket.end}, bucket.name, host_.gradient_rows()});
}

// All that can fail comes before the first write, so a step is done whole or not at all.
void CpuProgram::update(int thread) {
  std::vector<Minimized>& minimized = host_.minimized;
  if (minimized.empty() && host_.assigns.empty()) return;
  const bool exchanged = exchange_ && host_.phase == Phase::kStep;
  if (host_.phase != Phase::kUpdate) {
    for (std::size_t i = 0; i < minimized.size(); ++i) {
      if (!host_.idle(minimized[i]) && (!exchanged || !minimized[i].spec.reduce)) sum_gradients(i, thread);
    }
  }
  if (host_.phase == Phase::kGradients) return;
  pool_.barrier();
  if (host_.accumulates()) {
    for (Minimized& m : minimized) {
      const auto [begin, end] = range(host_.groups[m.group].params->layout().elements, thread);
      if (!host_.idle(m)) host_.accumulate(m, begin, end);
    }
    pool_.barrier();
    if (!host_.updates_now()) {
      if (thread == 0) assign();
      return;
    }
  }
  if (host_.reduces()) {
    if (thread == 0) failure_ = exchanged ? exchange_->finish() : host_.reduce_gradients();
    pool_.barrier();
    if (!failure_.ok()) return;
  }
  if (host_.options.update) {
    for (std::size_t i = 0; i < minimized.size(); ++i) {
      if (!host_.idle(minimized[i])) sum_squares(i, thread);
    }
    pool_.barrier();
    if (!finite()) {
      for (Minimized& m : minimized) clear_accumulated(m, thread);
      if (thread == 0) skip_ = true;
      return;
    }
    for (std::size_t i = 0; i < minimized.size(); ++i) {
      apply(i, thread);
      clear_accumulated(minimized[i], thread);
    }
    keep_lengths(thread);
    follow_online(thread);
  }
  if (thread == 0) assign();
}

void CpuProgram::clear_accumulated(Minimized& minimized, int thread) {
  const auto [begin, end] = range(host_.groups[minimized.group].params->layout().elements, thread);
  host_.clear_accumulated(minimized, begin, end);
}

void CpuProgram::apply(std::size_t index, int thread) {
  Minimized& minimized = host_.minimized[index];
  if (!host_.due(minimized.spec.every_steps)) return;
  const std::int64_t update = host_.step / minimized.spec.every_steps;  // whole periods that came before
  ParamBuffer& params = *host_.groups[minimized.group].params;
  const std::size_t slots = rule_slots(params, host_.accumulates());
  const auto [begin, end] = range(params.layout().elements, thread);
  UpdateArgs args{.values = params.values().data(),
                  .slot0 = slots > 0 ? params.slot(0).data() : nullptr,
                  .slot1 = slots > 1 ? params.slot(1).data() : nullptr,
                  .gradients = gradients_[index].stripes.data(),
                  .gradient_count = 1,
                  .shadow = shadow(minimized.group),
                  .begin = begin,
                  .end = end,
                  .gradient_scale = 1};
  if (minimized.spec.max_global_norm > 0) {
    double squares = 0;
    for (std::size_t b = 0; b < minimized.norm_blocks; ++b) squares += gradients_[index].squares[b];
    const double norm = std::sqrt(squares);
    if (norm > minimized.spec.max_global_norm) {
      args.gradient_scale = static_cast<float>(minimized.spec.max_global_norm / norm);
    }
  }
  const UpdateRule rule(minimized.spec, update);
  if (!minimized.lars) return rule.apply(args, minimized.decay);
  rule.apply(args, minimized.lars->rates(std::get<Lars>(minimized.spec.rule), args.gradient_scale));
}

void CpuProgram::keep_lengths(int thread) {
  const auto keeps = [this](const Minimized& m) { return !m.kept.empty() && host_.due(m.spec.every_steps); };
  if (std::ranges::none_of(host_.minimized, keeps)) return;
  pool_.barrier();  // a column was updated by several threads
  for (const Minimized& m : host_.minimized) {
    if (!keeps(m)) continue;
    m.kept.restore(host_.groups[m.group].params->values().data(), shadow(m.group), static_cast<std::size_t>(thread),
                   static_cast<std::size_t>(pool_.threads()));
  }
  pool_.barrier();
}

void CpuProgram::follow_online(int thread) {
  for (std::size_t g = 0; g < host_.groups.size(); ++g) {
    Group& group = host_.groups[g];
    if (!host_.follows(group, host_.step)) continue;
    const auto online = static_cast<std::size_t>(group.online);
    const float* const from = host_.groups[online].params->values().data();
    const auto [begin, end] = range(group.params->layout().elements, thread);  // this thread has just updated it
    if (group.decay > 0) {
      table_.average(from, group.params->values().data(), shadow(g), group.decay, begin, end);
      continue;
    }
    std::copy(from + begin, from + end, group.params->values().data() + begin);
    if (shadow(g) != nullptr) std::copy(shadow(online) + begin, shadow(online) + end, shadow(g) + begin);
  }
}

void CpuProgram::assign() {
  for (std::size_t i = 0; i < assigned_.size(); ++i) {
    const Assign& assign = host_.assigns[i];
    const auto offset = static_cast<std::size_t>(assign.offset);
    float* const to = host_.state.params->values().data() + offset;
    if (host_.options.compute == DType::kF64) {
      const auto* const from = static_cast<const double*>(assigned_[i]);
      std::copy_n(from, assign.elements, copies_.back().values_f64.get() + offset);
      std::copy_n(from, assign.elements, to);
    } else {
      std::copy_n(static_cast<const float*>(assigned_[i]), assign.elements, to);
    }
  }
}

}  // namespace troupe::learner
