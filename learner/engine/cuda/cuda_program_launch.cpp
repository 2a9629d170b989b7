// Launches: what goes over before one, how it is recorded and begun, and what comes back.
#include <algorithm>
#include <cstring>
#include <utility>

#include <troupe/learner/engine/apply_update.hpp>
#include <troupe/learner/engine/cuda/cuda_program.hpp>

namespace troupe::learner {

namespace {

static_assert(static_cast<int>(UpdateRule::Pass::kSgd) == TROUPE_CUDA_SGD);
static_assert(static_cast<int>(UpdateRule::Pass::kAdam) == TROUPE_CUDA_ADAM);
static_assert(static_cast<int>(UpdateRule::Pass::kRmsProp) == TROUPE_CUDA_RMS_PROP);

// More than a run of any model has, with launches of every length; only rows of batches that are short in ever new ways
// could make more.
constexpr std::size_t kMaxVariants = 64;

}  // namespace

// ---- inputs ----

Status CudaProgram::make_staging() {
  if (staging_[0].host.bytes() > 0 || inputs_.bytes() == 0) return {};
  const std::size_t bytes = inputs_.bytes() * static_cast<std::size_t>(steps_per_launch_);
  for (Staging& block : staging_) {
    TROUPE_ASSIGN(block.device, gpu_->allocate(bytes, "the batches of a launch"));
    TROUPE_ASSIGN(block.host, gpu_->allocate_pinned(bytes, "the batches of a launch"));
    std::fill_n(block.host.get(), bytes, std::byte{0});
    bytes_ += bytes;
  }
  return {};
}

Status CudaProgram::stage(int step, const BatchView& batch) {
  TROUPE_TRY(gpu_->use());
  TROUPE_TRY(make_staging());
  const Staging& block = staging_[block_];
  const std::size_t at = static_cast<std::size_t>(step) * inputs_.bytes();
  for (std::size_t i = 0; i < host_.inputs.size(); ++i) {
    const Slice& slice = input_slices_[i];
    if (slice.bytes == 0) continue;
    const BoundInput& input = host_.inputs[i];
    std::byte* const to = block.host.get() + at + slice.offset;
    if (const int column = batch.find(input.name); column >= 0) {
      copy_rows(input.spec, batch.columns[static_cast<std::size_t>(column)], batch.rows, host_.batch,
                host_.options.compute, to);
    } else {
      std::memcpy(to, input.data, slice.bytes);
    }
  }
  if (inputs_.bytes() == 0) return {};
  return check(gpu_->api().copy(block.device.get() + at, block.host.get() + at, inputs_.bytes(), copy_stream_),
               "sending a batch");
}

void CudaProgram::fill_bound_inputs() {
  for (std::size_t i = 0; i < host_.inputs.size(); ++i) {
    const Slice& slice = input_slices_[i];
    if (slice.bytes > 0) std::memcpy(host_inputs_.get() + slice.offset, host_.inputs[i].data, slice.bytes);
  }
}

void CudaProgram::attach(std::shared_ptr<DeviceFeed> feed) {
  (void)gpu_->use();  // the next launch says what is wrong
  for (auto& [variant, recorded] : recorded_) {
    if (variant.inputs == Inputs::kFed) forget(recorded);
  }
  feed_ = std::move(feed);
}

// ---- what differs from step to step ----

void CudaProgram::fill_rules() {
  for (std::size_t i = 0; i < host_.minimized.size(); ++i) {
    const OptimizerSpec& spec = host_.minimized[i].spec;
    auto* const rules = reinterpret_cast<TroupeCudaRule*>(host_rules_.get() + rules_at(i));
    const Lars* const lars = std::get_if<Lars>(&spec.rule);
    const float trust_coefficient = lars != nullptr ? static_cast<float>(lars->trust_coefficient) : 0;
    for (int row = 0; row < launch_.steps; ++row) {
      const UpdateRule rule(spec, (host_.step + row) / spec.every_steps);
      const UpdateArgs& args = rule.constants();
      rules[row] = {.pass = static_cast<std::int32_t>(rule.pass()),
                    .nesterov = args.nesterov,
                    .gradient_scale = args.gradient_scale,
                    .step_size = args.step_size,
                    .beta1 = args.beta1,
                    .beta2 = args.beta2,
                    .epsilon = args.epsilon,
                    .inverse_sqrt_correction = args.inverse_sqrt_correction,
                    .momentum = args.momentum,
                    .weight_decay = args.weight_decay,
                    .inner_rate = args.inner_rate,
                    .inside_root = args.inside_root,
                    .max_global_norm = static_cast<float>(spec.max_global_norm),
                    .trust_coefficient = trust_coefficient};
    }
  }
  for (std::size_t g = 0; g < host_.groups.size(); ++g) {
    auto* const due = reinterpret_cast<std::int32_t*>(host_rules_.get() + due_at(g));
    for (int row = 0; row < launch_.steps; ++row) due[row] = host_.follows(host_.groups[g], host_.step + row) ? 1 : 0;
  }
  auto* const control = reinterpret_cast<TroupeCudaControl*>(host_rules_.get() + results_at_);
  *control = {.skip = 0, .taken = -1, .scale = {}};
}

CudaProgram::Variant CudaProgram::variant() {
  std::int64_t due = 0, bit = 1;
  for (const Minimized& m : host_.minimized) {
    if (host_.due(m.spec.every_steps)) due |= bit;
    bit *= 2;
  }
  const bool accumulates = host_.accumulates() && host_.phase != Phase::kGradients;
  return {.phase = host_.phase,
          .rows = host_.rows,
          .due = due,
          .updates = accumulates && host_.updates_now() ? 1 : 0,
          .gradient_rows = accumulates ? host_.gradient_rows() : 0,
          .steps = launch_.steps,
          .inputs = launch_.inputs,
          .block = launch_.block};
}

// ---- launches ----

bool CudaProgram::calls_host() const { return !functions_.empty() || host_.reduces(); }

Status CudaProgram::prepare(Inputs inputs, int steps) {
  TROUPE_TRY(gpu_->use());
  return inputs == Inputs::kFed ? feed_->before_launch(steps, stream_) : Status();
}

Status CudaProgram::begin(Inputs inputs, int steps) {
  TROUPE_TRY(gpu_->use());
  const TroupeCudaApi& api = gpu_->api();
  launch_ = {.steps = steps, .inputs = inputs};
  if (inputs == Inputs::kBound && host_.phase != Phase::kUpdate) fill_bound_inputs();
  if (inputs == Inputs::kStaged) {
    launch_.block = std::exchange(block_, 1 - block_);
    TROUPE_TRY(check(api.record(copied_, copy_stream_), "sending the batches"));
    TROUPE_TRY(check(api.wait(stream_, copied_), "sending the batches"));
  }
  launch_ = variant();
  fill_rules();
  if (recorded_.size() > kMaxVariants) {
    for (auto& [variant, recorded] : recorded_) forget(recorded);
    recorded_.clear();
  }
  Recorded& recorded = recorded_[launch_];
  ++recorded.runs;
  TROUPE_TRY(run_stretches(recorded));
  return check(api.record(done_, stream_), "a step");
}

Status CudaProgram::run_stretches(Recorded& recorded) {
  std::size_t index = 0;
  Stretch next;
  if (host_.phase != Phase::kUpdate) {
    next.inputs = true;
    for (const std::size_t function : functions_) {
      next.end = function;
      TROUPE_TRY(run_stretch(next, recorded, &index));
      TROUPE_TRY(run_joint(nodes_[function]));
      next = {.begin = function + 1};
    }
    next.end = nodes_.size();
  }
  if (host_.phase == Phase::kUpdate) TROUPE_TRY(send_changed_gradients());
  if (host_.phase != Phase::kGradients) {
    next.accumulate = host_.accumulates();
    if (host_.updates_now() && host_.reduces()) {
      TROUPE_TRY(run_stretch(next, recorded, &index));
      TROUPE_TRY(reduce());
      next = {};
    }
    next.update = true;
    fetched_.assign(groups_.size() + 1, false);
  }
  next.results = true;
  return run_stretch(next, recorded, &index);
}

/// The first time as it is, the second time recorded, then replayed.
Status CudaProgram::run_stretch(const Stretch& stretch, Recorded& recorded, std::size_t* index) {
  if (recorded.runs == 1) return enqueue(stretch);
  const TroupeCudaApi& api = gpu_->api();
  const std::size_t at = (*index)++;
  if (at == recorded.graphs.size()) {
    TROUPE_TRY(check(api.begin_capture(stream_), "recording a step"));
    recording_ = true;
    const Status enqueued = enqueue(stretch);
    recording_ = false;
    TroupeCudaGraph* graph = nullptr;
    const Status ended = check(api.end_capture(stream_, &graph), "recording a step");
    if (!enqueued.ok()) {  // half of a step
      if (ended.ok()) (void)api.destroy_graph(graph);
      return enqueued;
    }
    TROUPE_TRY(ended);
    recorded.graphs.push_back(graph);
  }
  return check(api.launch_graph(recorded.graphs[at], stream_), "starting a step");
}

Status CudaProgram::enqueue(const Stretch& stretch) {
  const TroupeCudaApi& api = gpu_->api();
  if (stretch.update) {
    TROUPE_TRY(check(api.copy(end_.get(), host_rules_.get(), host_rules_.bytes(), stream_),
                     "sending the optimisers' constants"));
  }
  if (stretch.inputs) TROUPE_TRY(enqueue_inputs(0));
  for (int step = 0; step < launch_.steps; ++step) TROUPE_TRY(enqueue_step(stretch, step));
  if (!stretch.results) return {};
  const std::byte* const from = launch_.steps > 1 ? rows_.get() : results();
  return check(api.copy(host_results_.get(), from, result_bytes_ * static_cast<std::size_t>(launch_.steps), stream_),
               "reading results");
}

Status CudaProgram::record_after(const std::vector<TroupeCudaPoint*>& points) {
  return check(gpu_->api().record_after(stream_, points.data(), static_cast<std::int32_t>(points.size())),
               "recording a step");
}

Result<TroupeCudaPoint*> CudaProgram::recorded_last() {
  TroupeCudaPoint* point = nullptr;
  TROUPE_TRY(check(gpu_->api().recorded_last(stream_, &point), "recording a step"));
  return point;
}

Status CudaProgram::record_nodes(const Stretch& stretch) {
  TROUPE_ASSIGN(TroupeCudaPoint* const start, recorded_last());
  std::vector<std::vector<TroupeCudaPoint*>> ends(stretch.end - stretch.begin);
  std::vector<bool> followed(ends.size(), false);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Node& node = nodes_[stretch.begin + i];
    std::vector<TroupeCudaPoint*> after{start};
    for (const std::uint32_t earlier : node.after) {
      if (earlier < stretch.begin) continue;
      const auto& points = ends[earlier - stretch.begin];
      after.insert(after.end(), points.begin(), points.end());
      followed[earlier - stretch.begin] = true;
    }
    if (host_.idle(node.minimized)) {  // who waits for it waits for those before it
      ends[i] = std::move(after);
      continue;
    }
    if (after.size() > 1) after.erase(after.begin());  // those have begun behind it
    TROUPE_TRY(record_after(after));
    TROUPE_TRY(enqueue_node(node));
    TROUPE_ASSIGN(TroupeCudaPoint* const end, recorded_last());
    ends[i] = {end};
  }
  std::vector<TroupeCudaPoint*> last{start};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!followed[i]) last.insert(last.end(), ends[i].begin(), ends[i].end());
  }
  return record_after(last);
}

Status CudaProgram::side_by_side(const std::function<Status()>& one, const std::function<Status()>& other) {
  if (!recording_) {
    TROUPE_TRY(one());
    return other();
  }
  TROUPE_ASSIGN(TroupeCudaPoint* const start, recorded_last());
  TROUPE_TRY(one());
  TROUPE_ASSIGN(TroupeCudaPoint* const end, recorded_last());
  TROUPE_TRY(record_after({start}));
  TROUPE_TRY(other());
  TROUPE_ASSIGN(TroupeCudaPoint* const other_end, recorded_last());
  return record_after({end, other_end});
}

Status CudaProgram::enqueue_step(const Stretch& stretch, int step) {
  const TroupeCudaApi& api = gpu_->api();
  if (recording_) {
    TROUPE_TRY(record_nodes(stretch));
  } else {
    for (std::size_t i = stretch.begin; i < stretch.end; ++i) TROUPE_TRY(enqueue_node(nodes_[i]));
  }
  if (stretch.accumulate) TROUPE_TRY(enqueue_accumulation());
  // What this step has put out, and what the next one takes in.
  const auto exchange = [&]() -> Status {
    if (!stretch.results) return {};
    for (const auto& [to, from] : gathered_) {
      TROUPE_TRY(check(api.copy(results() + to.offset, from, to.bytes, stream_), "gathering results"));
    }
    if (launch_.inputs == Inputs::kFed) TROUPE_TRY(feed_->enqueue_outputs(step, control(), stream_));
    if (launch_.steps == 1) return {};
    TROUPE_TRY(
        check(api.copy(rows_.get() + static_cast<std::size_t>(step) * result_bytes_, results(), result_bytes_, stream_),
              "gathering results"));
    return step + 1 < launch_.steps ? enqueue_inputs(step + 1) : Status();
  };
  if (!stretch.update) return exchange();
  if (exchanges_apart_) return enqueue_update(exchange);
  TROUPE_TRY(enqueue_update({}));
  return exchange();
}

Status CudaProgram::enqueue_inputs(int step) {
  if (launch_.inputs == Inputs::kFed) return feed_->enqueue_inputs(step, stream_);
  if (inputs_.bytes() == 0) return {};
  const std::byte* const from = launch_.inputs == Inputs::kBound ? host_inputs_.get()
                                                                 : staging_[launch_.block].device.get() +
                                                                       static_cast<std::size_t>(step) * inputs_.bytes();
  return check(gpu_->api().copy(inputs_.get(), from, inputs_.bytes(), stream_), "sending the batch");
}

Result<bool> CudaProgram::finished() {
  TROUPE_TRY(gpu_->use());
  std::int32_t yes = 0;
  TROUPE_TRY(check(gpu_->api().finished(done_, &yes), "a step"));
  return yes != 0;
}

Status CudaProgram::finish() {
  TROUPE_TRY(gpu_->use());
  TROUPE_TRY(synchronise());
  gradient_fetched_.assign(host_.minimized.size(), false);
  read_results();
  return {};
}

void CudaProgram::read_results() {
  const auto steps = static_cast<std::size_t>(launch_.steps), metrics = host_.metric_names.size();
  host_.skips.assign(steps, false);
  if (launch_.phase != Phase::kGradients) {
    for (std::size_t step = 0; step < steps; ++step) {
      const std::byte* const row = host_results_.get() + step * result_bytes_;
      host_.skips[step] = reinterpret_cast<const TroupeCudaControl*>(row)->skip != 0;
    }
  }
  if (launch_.phase == Phase::kUpdate) return;
  const std::byte* const last = host_results_.get() + (steps - 1) * result_bytes_;
  for (std::size_t i = 0; i < host_.outputs.size(); ++i) {
    std::memcpy(host_.outputs[i].data.get(), last + output_slices_[i].offset, output_slices_[i].bytes);
  }
  host_.step_metrics.resize(steps * metrics);
  for (std::size_t i = 0; i < steps * metrics; ++i) {
    float value = 0;
    std::memcpy(&value, host_results_.get() + i / metrics * result_bytes_ + metric_slices_[i % metrics].offset,
                sizeof(value));
    host_.step_metrics[i] = static_cast<double>(value);
  }
}

}  // namespace troupe::learner
