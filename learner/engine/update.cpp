// The end of a step, on all threads: each takes a range of every flat buffer, so no two write the same line.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <troupe/learner/engine/apply_update.hpp>
#include <troupe/learner/engine/program_impl.hpp>
#include <troupe/learner/engine/tree_sum.hpp>

namespace troupe::learner {

std::pair<std::int64_t, std::int64_t> Program::Impl::range(std::int64_t elements, int thread) const {
  const std::int64_t lines = elements / 16, count = pool.threads();  // 64-byte lines; layouts are whole lines
  return {lines * thread / count * 16, lines * (thread + 1) / count * 16};
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
  const auto count = static_cast<std::size_t>(pool.threads()), t = static_cast<std::size_t>(thread);
  const std::size_t all = minimized.blocks.size();
  for (std::size_t b = all * t / count; b < all * (t + 1) / count; ++b) {
    const Stretch& block = minimized.blocks[b];
    minimized.squares[b] = table->sum_squares(minimized.gradients[0], block.begin, block.end);
  }
  if (!minimized.lars) return;
  minimized.lars->sum(*table, groups[minimized.group].params->values().data(), minimized.gradients[0], t, count);
}

bool Program::Impl::finite() const {
  return std::ranges::all_of(minimized, [this](const Minimized& m) {
    return idle(m) || std::ranges::all_of(m.squares, [](double squares) { return std::isfinite(squares); });
  });
}

namespace {

bool reduces(const Minimized& minimized) { return static_cast<bool>(minimized.spec.reduce); }

}  // namespace

Status Program::Impl::reduce_gradients() {
  // What only this replica has may be infinite here alone, but all must skip the step: so it spoils what they share.
  const bool own_finite = std::ranges::all_of(minimized, [&](const Minimized& m) {
    return idle(m) || std::ranges::all_of(m.own, [&](const Stretch& own) {
             return std::isfinite(table->sum_squares(m.gradients[0], own.begin, own.end));
           });
  });
  const auto spoil = [](float* shared) -> Status {
    *shared = std::numeric_limits<float>::quiet_NaN();
    return {};
  };
  return reduce_parts(
      -1, [](const Minimized& m) { return const_cast<float*>(m.gradients[0]); },
      own_finite ? nullptr : std::function<Status(float*)>(spoil));
}

Status Program::Impl::reduce_parts(int gpu, const std::function<float*(const Minimized&)>& gradient,
                                   std::function<Status(float*)> spoil) {
  for (const Minimized& m : minimized) {
    if (!reduces(m) || idle(m)) continue;
    const std::string& group = groups[m.group].params->layout().group;
    float* const first = gradient(m);
    for (std::size_t i = 0; i < m.shared.size(); ++i) {
      const auto [begin, end] = m.shared[i];
      if (const auto spoil_now = std::exchange(spoil, nullptr)) TROUPE_TRY(spoil_now(first + begin));
      const std::string name = m.shared.size() == 1 ? group : fmt::format("{}/{}", group, i);
      TROUPE_TRY(m.spec.reduce({{first + begin, first + end}, name, gradient_rows(), gpu}));
    }
  }
  return {};
}

Status Program::Impl::reduce_bucket(const GradientExchange::Bucket& bucket) {
  const Minimized& m = minimized[bucket.minimized];
  if (idle(m)) return {};
  float* const gradient = const_cast<float*>(m.gradients[0]);
  const auto count = static_cast<std::int64_t>(m.gradients.size());
  if (count > 1) table->sum_gradients(m.gradients.data(), count, gradient, bucket.begin, bucket.end);
  return m.spec.reduce({{gradient + bucket.begin, gradient + bucket.end}, bucket.name, gradient_rows()});
}

// All that can fail comes before the first write, so a step is done whole or not at all.
void Program::Impl::update(int thread) {
  if (minimized.empty() && assigns.empty()) return;
  const bool exchanged = exchange && phase == Phase::kStep;
  if (phase != Phase::kUpdate) {
    for (Minimized& m : minimized) {
      if (!idle(m) && (!exchanged || !reduces(m))) sum_gradients(m, thread);
    }
  }
  if (phase == Phase::kGradients) return;
  pool.barrier();
  if (accumulation) {
    for (Minimized& m : minimized) {
      if (!idle(m)) accumulate(m, thread);
    }
    pool.barrier();
    if (!updates_now()) {
      if (thread == 0) assign_states();
      return;
    }
  }
  if (std::ranges::any_of(minimized, reduces)) {
    if (thread == 0) failure = exchanged ? exchange->finish() : reduce_gradients();
    pool.barrier();
    if (!failure.ok()) return;
  }
  if (options.update) {
    for (Minimized& m : minimized) {
      if (!idle(m)) sum_squares(m, thread);
    }
    pool.barrier();
    if (!finite()) {
      for (Minimized& m : minimized) clear_accumulated(m, thread);
      if (thread == 0) skip = true;
      return;
    }
    for (Minimized& m : minimized) {
      apply(m, thread);
      clear_accumulated(m, thread);
    }
    keep_lengths(thread);
    follow_online(thread);
  }
  if (thread == 0) assign_states();
}

// The sums stay as they are in the last run of an update, so that it can be tried again when a reduction fails.
void Program::Impl::accumulate(Minimized& minimized, int thread) {
  ParamBuffer& params = *groups[minimized.group].params;
  const auto [begin, end] = range(params.layout().elements, thread);
  float* const gradient = const_cast<float*>(minimized.gradients[0]);
  float* const sum = params.slot(params.slots().size() - 1).data();
  const float weight = static_cast<float>(rows);
  if (!updates_now()) {
    for (std::int64_t i = begin; i < end; ++i) sum[i] += weight * gradient[i];
    return;
  }
  const float share = 1 / static_cast<float>(std::max<std::int64_t>(gradient_rows(), 1));
  for (std::int64_t i = begin; i < end; ++i) gradient[i] = share * (sum[i] + weight * gradient[i]);
}

void Program::Impl::clear_accumulated(Minimized& minimized, int thread) {
  if (!accumulation) return;
  ParamBuffer& params = *groups[minimized.group].params;
  const auto [begin, end] = range(params.layout().elements, thread);
  float* const sum = params.slot(params.slots().size() - 1).data();
  std::fill(sum + begin, sum + end, 0.0F);
}

std::int64_t Program::Impl::gradient_rows() {
  return rows + (accumulation ? static_cast<std::int64_t>(accumulated_rows()) : 0);
}

bool Program::Impl::count_run() {
  if (!accumulation) return true;
  const bool last = updates_now();
  accumulated_runs() = last ? 0 : accumulated_runs() + 1;
  accumulated_rows() = last ? 0 : accumulated_rows() + static_cast<float>(rows);
  return last;
}

void Program::Impl::apply(Minimized& minimized, int thread) {
  if (!due(minimized.spec.every_steps)) return;
  const std::int64_t update = step / minimized.spec.every_steps;  // whole periods that came before
  Group& group = groups[minimized.group];
  ParamBuffer& params = *group.params;
  const std::size_t slots = params.slots().size() - (accumulation ? 1 : 0);  // the rule's own
  const auto [begin, end] = range(params.layout().elements, thread);
  UpdateArgs args{.values = params.values().data(),
                  .slot0 = slots > 0 ? params.slot(0).data() : nullptr,
                  .slot1 = slots > 1 ? params.slot(1).data() : nullptr,
                  .gradients = minimized.gradients.data(),
                  .gradient_count = 1,
                  .shadow = options.compute == DType::kBF16 ? group.shadow.get() : nullptr,
                  .begin = begin,
                  .end = end,
                  .gradient_scale = 1};
  if (minimized.spec.max_global_norm > 0) {
    double squares = 0;
    for (std::size_t b = 0; b < minimized.norm_blocks; ++b) squares += minimized.squares[b];
    const double norm = std::sqrt(squares);
    if (norm > minimized.spec.max_global_norm) {
      args.gradient_scale = static_cast<float>(minimized.spec.max_global_norm / norm);
    }
  }
  const UpdateRule rule(minimized.spec, update);
  if (!minimized.lars) return rule.apply(args, minimized.decay);
  rule.apply(args, minimized.lars->rates(std::get<Lars>(minimized.spec.rule), args.gradient_scale));
}

void Program::Impl::keep_lengths(int thread) {
  const auto keeps = [this](const Minimized& m) { return !m.kept.empty() && due(m.spec.every_steps); };
  if (std::ranges::none_of(minimized, keeps)) return;
  pool.barrier();  // a column was updated by several threads
  for (const Minimized& m : minimized) {
    if (!keeps(m)) continue;
    const Group& group = groups[m.group];
    m.kept.restore(group.params->values().data(), options.compute == DType::kBF16 ? group.shadow.get() : nullptr,
                   static_cast<std::size_t>(thread), static_cast<std::size_t>(pool.threads()));
  }
  pool.barrier();
}

bool Program::Impl::follows(const Group& group, std::int64_t step) const {
  if (group.online < 0 || !due(group.every_steps, step)) return false;
  if (group.decay == 0) return true;
  const auto online = std::ranges::find(minimized, static_cast<std::size_t>(group.online), &Minimized::group);
  return online != minimized.end() && due(online->spec.every_steps, step);
}

void Program::Impl::follow_online(int thread) {
  for (Group& group : groups) {
    if (!follows(group, step)) continue;
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
