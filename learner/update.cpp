// The end of a step, on all threads: each takes a range of every flat buffer, so no two write the same line.
#include <algorithm>
#include <cmath>

#include <troupe/learner/apply_update.hpp>
#include <troupe/learner/program_impl.hpp>
#include <troupe/learner/tree_sum.hpp>

namespace troupe::learner {

std::pair<std::int64_t, std::int64_t> Program::Impl::range(std::int64_t elements, int thread) const {
  const std::int64_t lines = elements / 16, count = pool.shards();  // 64-byte lines; layouts are whole lines
  return {lines * thread / count * 16, lines * (thread + 1) / count * 16};
}

std::pair<std::int64_t, std::int64_t> Program::Impl::blocks(std::int64_t elements, int thread) const {
  const std::int64_t all = (elements + kNormBlock - 1) / kNormBlock, count = pool.shards();
  return {all * thread / count, all * (thread + 1) / count};
}

void Program::Impl::sum_gradients(Minimized& minimized, int thread) {
  const std::int64_t elements = groups[minimized.group].params->layout().elements;
  const auto [begin, end] = range(elements, thread);
  if (options.compute == DType::kF64) {
    for (std::int64_t i = begin; i < end; ++i) {
      minimized.gradient_f64[static_cast<std::size_t>(i)] =
          static_cast<float>(tree_sum(0, minimized.gradients.size(), [&](std::size_t s) {
            return reinterpret_cast<const double*>(minimized.gradients[s])[i];
          }));
    }
    return;
  }
  const auto count = static_cast<std::int64_t>(minimized.gradients.size());
  if (count == 1) return;
  table->sum_gradients(minimized.gradients.data(), count, const_cast<float*>(minimized.gradients[0]), begin, end);
}

void Program::Impl::sum_squares(Minimized& minimized, int thread) {
  const std::int64_t elements = groups[minimized.group].params->layout().elements;
  const auto [first, last] = blocks(elements, thread);
  for (std::int64_t block = first; block < last; ++block) {
    minimized.squares[static_cast<std::size_t>(block)] =
        table->sum_squares(minimized.gradients[0], block * kNormBlock, std::min(elements, (block + 1) * kNormBlock));
  }
}

bool Program::Impl::finite() const {
  return std::ranges::all_of(minimized, [](const Minimized& m) {
    return std::ranges::all_of(m.squares, [](double squares) { return std::isfinite(squares); });
  });
}

// All that can fail comes before the first write, so a step is done whole or not at all.
void Program::Impl::update(int thread) {
  if (minimized.empty() && assigns.empty()) return;
  const auto reduces = [](const Minimized& m) { return static_cast<bool>(m.spec.reduce); };
  if (phase != Phase::kUpdate) {
    for (Minimized& m : minimized) sum_gradients(m, thread);
  }
  if (phase == Phase::kGradients) return;
  pool.barrier();
  if (std::ranges::any_of(minimized, reduces)) {
    for (Minimized& m : minimized) {
      if (thread != 0 || !reduces(m) || !failure.ok()) continue;
      const auto elements = static_cast<std::size_t>(groups[m.group].params->layout().elements);
      failure = m.spec.reduce({const_cast<float*>(m.gradients[0]), elements});
    }
    pool.barrier();
    if (!failure.ok()) return;
  }
  for (Minimized& m : minimized) sum_squares(m, thread);
  pool.barrier();
  if (!finite()) {
    if (thread == 0) skip = true;
    return;
  }
  for (Minimized& m : minimized) apply(m, thread);
  follow_online(thread);
  if (thread == 0) assign_states();
}

void Program::Impl::apply(Minimized& minimized, int thread) {
  if (!updates(minimized.group)) return;
  const std::int64_t update = step / minimized.spec.every_steps;  // whole periods that came before
  Group& group = groups[minimized.group];
  ParamBuffer& params = *group.params;
  const auto [begin, end] = range(params.layout().elements, thread);
  UpdateArgs args{.values = params.values().data(),
                  .slot0 = !params.slots().empty() ? params.slot(0).data() : nullptr,
                  .slot1 = params.slots().size() > 1 ? params.slot(1).data() : nullptr,
                  .gradients = minimized.gradients.data(),
                  .gradient_count = 1,
                  .shadow = options.compute == DType::kBF16 ? group.shadow.get() : nullptr,
                  .begin = begin,
                  .end = end,
                  .gradient_scale = 1};
  if (minimized.spec.max_global_norm > 0) {
    double squares = 0;
    for (const double part : minimized.squares) squares += part;
    const double norm = std::sqrt(squares);
    if (norm > minimized.spec.max_global_norm) {
      args.gradient_scale = static_cast<float>(minimized.spec.max_global_norm / norm);
    }
  }
  UpdateRule(minimized.spec, update).apply(args);
}

bool Program::Impl::updates(std::size_t group) const {
  const auto found = std::ranges::find(minimized, group, &Minimized::group);
  return found != minimized.end() && (step + 1) % found->spec.every_steps == 0;
}

void Program::Impl::follow_online(int thread) {
  for (Group& group : groups) {
    if (group.online < 0 || (step + 1) % group.every_steps != 0) continue;
    if (group.decay > 0 && !updates(static_cast<std::size_t>(group.online))) continue;
    Group& online = groups[static_cast<std::size_t>(group.online)];
    const auto [begin, end] = range(group.params->layout().elements, thread);  // this thread has just updated it
    if (group.decay > 0) {
      table->average(online.params->values().data(), group.params->values().data(),
                     options.compute == DType::kBF16 ? group.shadow.get() : nullptr, group.decay, begin, end);
      continue;
    }
    std::copy(online.params->values().data() + begin, online.params->values().data() + end,
              group.params->values().data() + begin);
    if (options.compute == DType::kBF16) {
      std::copy(online.shadow.get() + begin, online.shadow.get() + end, group.shadow.get() + begin);
    }
  }
}

void Program::Impl::assign_states() {
  for (const Assign& assign : assigns) {
    const auto offset = static_cast<std::size_t>(assign.offset);
    float* const to = state.params->values().data() + offset;
    if (options.compute == DType::kF64) {
      std::copy_n(static_cast<const double*>(assign.from), assign.elements, state.values_f64.get() + offset);
      std::copy_n(static_cast<const double*>(assign.from), assign.elements, to);
    } else {
      std::copy_n(static_cast<const float*>(assign.from), assign.elements, to);
    }
  }
}

}  // namespace troupe::learner
