#include <troupe/learner/replicate/parameter_server/worker.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/lars.hpp>

namespace troupe::learner {

namespace {

/// LARS's rates follow from norms of whole variables, which a shard that holds a part of one cannot know.
Status check_lars(const ServedModel& model, const std::vector<ShardPlan>& plans) {
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const ServedGroup& group = model.groups[g];
    if (!group.optimizer || !std::holds_alternative<Lars>(group.optimizer->rule)) continue;
    const std::vector<UpdateStretch> variables = lars_stretches(group.layout);
    for (std::size_t v = 0; v < variables.size(); ++v) {
      const auto holds = [&](const ShardSegment& segment) {
        const std::int64_t begin = segment.model_offset - group.offset;
        return segment.group == g && segment.kind == ShardSegment::Kind::kDense && begin <= variables[v].begin &&
               variables[v].end <= begin + segment.elements;
      };
      const auto has_it = [&](const ShardPlan& plan) { return std::ranges::any_of(plan.segments, holds); };
      if (!variables[v].decays || std::ranges::any_of(plans, has_it)) continue;
      return Error{Code::kInvalidArgument,
                   fmt::format("parameter server: LARS needs the norms of whole variables, but none of {} shards has "
                               "\"{}\" whole, which is cut, or travels as rows: expected fewer shards or another rule",
                               plans.size(), group.layout.entries[v].name)};
    }
  }
  return {};
}

/// So do columns that keep a length, and of a batch norm's gain and offset even both.
Status check_kept(const ServedModel& model, const std::vector<ShardPlan>& plans) {
  for (std::size_t g = 0; g < model.groups.size(); ++g) {
    const ServedGroup& group = model.groups[g];
    for (const KeptLength& kept : group.optimizer ? group.layout.kept : std::vector<KeptLength>{}) {
      const auto holds = [&](const ShardSegment& segment) {
        const std::int64_t begin = segment.model_offset - group.offset, end = begin + segment.elements;
        return segment.group == g && segment.kind == ShardSegment::Kind::kDense &&
               std::ranges::all_of(kept.entries, [&](std::size_t e) {
                 const ParamEntry& entry = group.layout.entries[e];
                 return begin <= entry.offset && entry.offset + entry.shape.elements() <= end;
               });
      };
      const auto has_it = [&](const ShardPlan& plan) { return std::ranges::any_of(plan.segments, holds); };
      if (std::ranges::any_of(plans, has_it)) continue;
      return Error{
          Code::kInvalidArgument,
          fmt::format("parameter server: \"{}\" keeps its length, for which a shard needs {} whole, but none of "
                      "{} has that: expected fewer shards",
                      group.layout.entries[kept.entries.front()].name,
                      kept.entries.size() > 1 ? "it and what it keeps that with" : "it", plans.size())};
    }
  }
  return {};
}

}  // namespace

Result<ServedStep> plan_served(const Graph& graph, const ParameterServerPlan& plan) {
  TROUPE_ASSIGN(ServedModel model, ServedModel::of(graph));
  if (model.groups.empty()) {
    return Error{Code::kInvalidArgument, "parameter server: the step optimises nothing"};
  }
  ServedStep step;
  step.plans = plan_shards(model, plan.shards, plan.partition, plan.part_bytes);
  TROUPE_TRY(check_lars(model, step.plans));
  TROUPE_TRY(check_kept(model, step.plans));
  step.model = std::make_shared<const ServedModel>(std::move(model));
  return step;
}

Result<ServedReplica> build_served(Replica& replica, const ParameterServerPlan& plan) {
  if (plan.input.replica_batch < 1 || plan.shards < 1) {
    return Error{Code::kInvalidArgument, fmt::format("parameter server: batch {} of a worker, {} shards, expected 1 or "
                                                     "more",
                                                     plan.input.replica_batch, plan.shards)};
  }
  ServedReplica served;
  TROUPE_ASSIGN(served.input, replica.input_fn(plan.input));
  Graph graph(plan.input.replica_batch);
  ReplicaContext context(graph, plan.input, nullptr);
  replica.step_fn(context, StepInputs(graph, served.input->signature()));
  TROUPE_ASSIGN(static_cast<ServedStep&>(served), plan_served(graph, plan));
  TROUPE_ASSIGN(served.program, Program::compile(graph, plan.compile));
  return served;
}

Result<std::unique_ptr<ParameterServerWorker>> ParameterServerWorker::make(Replica& replica,
                                                                           const ParameterServerPlan& plan,
                                                                           DType transfer) {
  TROUPE_ASSIGN(ServedReplica served, build_served(replica, plan));
  return std::unique_ptr<ParameterServerWorker>(new ParameterServerWorker(std::move(served), plan, transfer));
}

ParameterServerWorker::ParameterServerWorker(ServedReplica replica, const ParameterServerPlan& plan, DType transfer)
    : replica_(std::move(replica)),
      input_(plan.input),
      transfer_(transfer),
      model_hash_(replica_.model->hash()),
      versions_(replica_.plans.size(), -1),
      loaded_(replica_.plans.size(), false),
      scales_(replica_.model->groups.size(), 1),
      batches_(plan.input.first_step) {}

Status ParameterServerWorker::load(const messages::ParametersView& piece) {
  const messages::ParametersInfo& info = piece.info();
  const std::size_t shard = piece.piece().index;
  if (info.layout_hash != model_hash_ || piece.piece().count != shards() ||
      piece.piece().ranges != replica_.plans[shard].piece.ranges ||
      (info.dtype != DType::kF32 && info.dtype != DType::kBF16)) {
    return Error{
        Code::kShapeMismatch,
        fmt::format("parameters: got piece {} of {} of model {:016x} in {}, expected one of {} of {:016x}", shard,
                    piece.piece().count, info.layout_hash, to_string(info.dtype), shards(), model_hash_)};
  }
  for (const ShardSegment& segment : replica_.plans[shard].segments) {
    const ServedGroup& group = replica_.model->groups[segment.group];
    float* const to = program().params(group.name)->values().data() + segment.model_offset - group.offset;
    const auto count = static_cast<std::size_t>(segment.elements);
    if (info.dtype == DType::kF32) {
      std::memcpy(to, reinterpret_cast<const float*>(piece.data().data()) + segment.local_offset,
                  count * sizeof(float));
    } else {
      const auto* const from = reinterpret_cast<const std::uint16_t*>(piece.data().data()) + segment.local_offset;
      messages::from_bf16({from, count}, {to, count});
    }
  }
  versions_[shard] = info.version;
  loaded_[shard] = true;
  if (std::ranges::find(loaded_, false) == loaded_.end()) {
    program().parameters_changed();
    program().set_step(version());
  }
  return {};
}

std::int64_t ParameterServerWorker::version() const { return *std::ranges::min_element(versions_); }

Status ParameterServerWorker::stage() {
  if (staged_ > 0) return Error{Code::kInvalidArgument, "parameter server: a batch is staged already"};
  TROUPE_ASSIGN(const BatchView batch, replica_.input->next());
  if (batch.rows == 0) return Error{Code::kUnavailable, "parameter server: the input's batch has no rows"};
  TROUPE_TRY(program().bind(batch));
  batch_ = batch;
  staged_ = 1;
  return {};
}

Status ParameterServerWorker::begin() {
  TROUPE_CHECK(version() >= 0, "a gradient without parameters");
  if (staged_ == 0) return Error{Code::kInvalidArgument, "parameter server: no batch is staged"};
  TROUPE_TRY(but_not_unavailable(program().run(Phase::kGradients)));
  staged_ = 0;
  loaded_.assign(loaded_.size(), false);
  ++batches_;
  return {};
}

float ParameterServerWorker::clip_scale(std::size_t group) {
  const ServedGroup& served = replica_.model->groups[group];
  if (!served.optimizer || served.optimizer->max_global_norm <= 0) return 1;
  const std::span<const float> gradient = program().gradient(served.name);
  const double norm = std::sqrt(kernels_f32().sum_squares(gradient.data(), 0, std::ssize(gradient)));
  return norm > served.optimizer->max_global_norm ? static_cast<float>(served.optimizer->max_global_norm / norm) : 1;
}

Result<std::vector<messages::Frame>> ParameterServerWorker::gradients(messages::FramePool& pool) {
  for (std::size_t g = 0; g < scales_.size(); ++g) scales_[g] = clip_scale(g);
  std::vector<messages::Frame> frames;
  for (const ShardPlan& plan : replica_.plans) {
    TROUPE_ASSIGN(messages::Frame frame, pack(pool, plan));
    if (!frame) {
      ++not_finite_;
      if (++not_finite_in_a_row_ < kMaxNotFinite) return std::vector<messages::Frame>{};
      return Error{Code::kInternal, fmt::format("worker {}: the gradients of {} batches in a row are not finite, the "
                                                "last at version {}",
                                                input_.replica_id, not_finite_in_a_row_, version())};
    }
    frames.push_back(std::move(frame));
  }
  not_finite_in_a_row_ = 0;
  program().assign_states();
  return frames;
}

std::span<const float> ParameterServerWorker::gradient_of(const ShardSegment& segment) {
  const ServedGroup& group = replica_.model->groups[segment.group];
  return program()
      .gradient(group.name)
      .subspan(static_cast<std::size_t>(segment.model_offset - group.offset),
               static_cast<std::size_t>(segment.elements));
}

void ParameterServerWorker::find_rows(const ShardSegment& segment, std::vector<std::uint32_t>& rows) {
  const auto columns = static_cast<std::size_t>(replica_.model->tables[segment.table].columns);
  const std::span<const float> gradient = gradient_of(segment);
  for (std::size_t row = 0; row < gradient.size() / columns; ++row) {
    const auto values = gradient.subspan(row * columns, columns);
    // A NaN is not zero either.
    if (std::ranges::all_of(values, [](float value) { return value == 0; })) continue;
    rows.push_back(static_cast<std::uint32_t>(segment.first_row) + static_cast<std::uint32_t>(row));
  }
}

Result<messages::Frame> ParameterServerWorker::pack(messages::FramePool& pool, const ShardPlan& plan) {
  using Kind = ShardSegment::Kind;
  // A table's parts on a shard ascend, and so do its rows. Room for all tables: spans into `rows` stay valid.
  std::vector<std::vector<std::uint32_t>> rows(replica_.model->tables.size());
  for (const ShardSegment& segment : plan.segments) {
    if (segment.kind == Kind::kSparse) find_rows(segment, rows[segment.table]);
  }
  std::vector<messages::SparseRows> sparse;
  std::vector<std::size_t> place(rows.size());  // of each table in `sparse`
  for (std::size_t t = 0; t < rows.size(); ++t) {
    place[t] = sparse.size();
    if (rows[t].empty()) continue;
    const auto columns = static_cast<std::uint32_t>(replica_.model->tables[t].columns);
    sparse.push_back({.table = static_cast<std::uint32_t>(t), .columns = columns, .rows = rows[t]});
  }
  TROUPE_ASSIGN(auto builder, messages::GradientBuilder::make(pool, transfer_, plan.dense_elements, sparse));
  for (const ShardSegment& segment : plan.segments) {
    if (segment.kind == Kind::kFollower) continue;
    const std::span<const float> gradient = gradient_of(segment);
    const float scale = scales_[segment.group];
    if (segment.kind == Kind::kDense) {
      if (!builder.write(gradient, scale)) return messages::Frame();
      continue;
    }
    const auto columns = static_cast<std::size_t>(replica_.model->tables[segment.table].columns);
    const auto first = static_cast<std::uint32_t>(segment.first_row);
    const auto end = first + static_cast<std::uint32_t>(gradient.size() / columns);
    for (const std::uint32_t row : rows[segment.table]) {
      if (row < first || row >= end) continue;
      const auto values = gradient.subspan((row - first) * columns, columns);
      if (!builder.write_rows(place[segment.table], values, scale)) return messages::Frame();
    }
  }
  return std::move(builder).finish({.worker = static_cast<std::uint32_t>(input_.replica_id),
                                    .version = versions_[plan.piece.index],
                                    .samples = static_cast<double>(batch_.rows),
                                    .model_hash = model_hash_,
                                    .piece = plan.piece.index,
                                    .pieces = plan.piece.count});
}

}  // namespace troupe::learner
