#include <troupe/learner/replicate/multi_worker.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include <troupe/collectives/nccl.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>

namespace troupe::learner {
namespace {

using collectives::CallOptions;
using collectives::ReduceOp;

/// What one member says of its state.
struct Standing {
  std::int64_t step = -1;  ///< -1: not whole
  std::int64_t digest = 0;
  friend bool operator==(const Standing&, const Standing&) = default;
};

/// Back to the beginning of an update, if some of its runs have been made.
void drop_accumulated(Program& program) {
  ParamBuffer* const accumulation = program.accumulation();
  if (accumulation == nullptr) return;
  std::ranges::fill(accumulation->values(), 0.0F);
  for (std::size_t g = 0; g < program.group_count(); ++g) {
    ParamBuffer& group = program.group(g);
    for (std::size_t s = 0; s < group.slots().size(); ++s) {
      if (group.slots()[s] == "accumulated") std::ranges::fill(group.slot(s), 0.0F);
    }
  }
}

/// Network trouble that comes again in every epoch must not keep the group from training.
constexpr int kNcclDeadlines = 2;

}  // namespace

Result<std::unique_ptr<MultiWorker>> MultiWorker::make(Replica& replica, const MultiWorkerOptions& options) {
  if ((options.batch > 0) == (options.global_batch > 0)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("multi_worker: batch {} and global batch {}, expected one of them to be positive",
                             options.batch, options.global_batch)};
  }
  std::unique_ptr<MultiWorker> made(new MultiWorker(replica, options));
  TROUPE_TRY(made->find_nccl());
  const std::int64_t batch = std::max(options.batch, options.global_batch);
  TROUPE_TRY(made->build({.replica_batch = batch, .global_batch = batch, .devices = options.compile.devices}));
  return made;
}

Status MultiWorker::build(const InputContext& context) {
  TROUPE_ASSIGN(std::unique_ptr<InputPipeline> input, replica_.input_fn(context));
  Graph graph(context.replica_batch);
  ReplicaContext replica_context(graph, context, gpus_ ? gpus_.get() : options_.communicator);
  replica_context.set_gradient_wire(options_.wire);
  replica_.step_fn(replica_context, StepInputs(graph, input->signature()));
  CompileOptions compile = options_.compile;
  if (options_.deterministic) {
    const auto stripes = in_stripes(compile, context.replica_count, context.global_batch);
    const std::int64_t own = stripes.ok() ? stripes->stripes : kStripes / context.replica_count;
    compile.stripes = static_cast<int>(std::clamp<std::int64_t>(own, 1, context.replica_batch));
    compile.plans = PlanChoice::kByRule;
  }
  TROUPE_ASSIGN(std::unique_ptr<Program> program, Program::compile(graph, compile));
  if (program_ != nullptr) {
    TROUPE_TRY(program_->fetch());
    TROUPE_TRY(restore_state(*program, save_state(*program_), program_->step()));
  }
  taken_.reset();  // it leads into the pipeline before
  input_ = std::move(input);
  inputs_ = context.first_step;
  program_ = std::move(program);
  context_ = context;
  return {};
}

Status MultiWorker::reform(const collectives::GroupView& view, Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  collectives::Communicator& group = *options_.communicator;
  group.activity().enter("reform");
  TROUPE_TRY(group.reform(view, timeout));
  InputContext context{.replica_id = view.rank, .replica_count = view.size, .devices = options_.compile.devices};
  if (options_.batch > 0) {
    context.replica_batch = options_.batch;
    context.global_batch = options_.batch * view.size;
  } else {
    const std::int64_t rows = options_.global_batch;
    if (rows < view.size) {
      return Error{Code::kInvalidArgument,
                   fmt::format("multi_worker: a global batch of {} rows for {} members", rows, view.size)};
    }
    context.replica_batch = rows * (view.rank + 1) / view.size - rows * view.rank / view.size;
    context.global_batch = rows;
  }
  drop_accumulated(*program_);
  TROUPE_TRY(agree());
  TROUPE_TRY(meet_on_gpus(deadline));
  context.first_step = batches();
  const bool same = context.replica_id == context_.replica_id && context.replica_count == context_.replica_count &&
                    context.replica_batch == context_.replica_batch && inputs_ == batches();
  return same ? Status() : build(context);
}

Status MultiWorker::find_nccl() {
  const Device device = resolve(options_.compile.device);
  if (!device.is_gpu()) return {};
  own_.device = device.index;
  if (options_.members_take_turns) {
    no_nccl_ = "members of a deterministic run take turns, and NCCL wants all at once";
    return {};
  }
  if (options_.wire != DType::kF32) {
    no_nccl_ = "wire = \"bf16\" is how they travel on Troupe's own links";
    return {};
  }
  const collectives::NcclOptions nccl{.device = device.index, .interface = options_.nccl_interface};
  const auto member = collectives::nccl_member(nccl);
  if (!member.ok()) {
    no_nccl_ = member.error().message;
    return {};
  }
  TROUPE_ASSIGN(gpus_, collectives::make_nccl_communicator(*options_.communicator, nccl));
  own_ = *member;
  return {};
}

Status MultiWorker::meet_on_gpus(std::chrono::steady_clock::time_point deadline) {
  collectives::Communicator& group = *options_.communicator;
  const collectives::GroupView& view = group.view();
  if (view.size < 2) return {};
  TROUPE_ASSIGN(const auto members, collectives::gather_nccl_members(group, own_));
  if (std::ranges::all_of(members, [](const auto& member) { return member.device < 0; })) return {};
  const std::string why = collectives::why_not_nccl(view, members);
  if (why.empty()) {
    const Duration left = std::max<Duration>(deadline - std::chrono::steady_clock::now(), std::chrono::seconds(1));
    if (const Status met = gpus_->reform(view, left); !met.ok()) {
      nccl_deadlines_ += met.error().code == Code::kDeadlineExceeded ? 1 : 0;
      if (collectives::epoch_is_over(met.error()) && nccl_deadlines_ < kNcclDeadlines) return met;
      no_nccl_ = met.error().message;
      own_ = {.device = own_.device};
      return Error{Code::kCancelled, fmt::format("epoch {} is over, because {}", view.epoch, no_nccl_)};
    }
    nccl_deadlines_ = 0;
  }
  // Each member says what is wrong with itself, and rank 0 what became of it all.
  if (!no_nccl_.empty()) {
    if (std::exchange(told_, no_nccl_) != no_nccl_) {
      const std::string how = fmt::format("{}: {}; gradients go through the host", options_.name, no_nccl_);
      options_.wire == DType::kF32 ? log::warn("{}", how) : log::info("{}", how);
    }
    return {};
  }
  const std::string how =
      !why.empty() ? fmt::format("gradients go through the host: {}", why)
                   : fmt::format("gradients by NCCL {} on {}", collectives::nccl_version_text(members[0].version),
                                 collectives::devices_text(members));
  if (view.rank == 0 && std::exchange(told_, how) != how) log::info("{}: {}", options_.name, how);
  return {};
}

Status MultiWorker::agree() {
  collectives::Communicator& group = *options_.communicator;
  const std::array own{whole_ ? program_->step() : -1, std::bit_cast<std::int64_t>(shared_digest(*program_))};
  TROUPE_ASSIGN(const auto all, group.gather_integers(own, {.name = "standing"}));
  const auto size = static_cast<std::size_t>(group.view().size);
  std::vector<Standing> standings(size);
  std::size_t best = 0;
  for (std::size_t rank = 0; rank < size; ++rank) {
    standings[rank] = {all[2 * rank], all[2 * rank + 1]};
    if (standings[rank].step > standings[best].step) best = rank;
  }
  if (standings[best].step < 0) {
    return Error{Code::kCorrupt,
                 fmt::format("group of epoch {}: none of its {} members has a whole state, because the last one that "
                             "had left while it handed it on",
                             group.view().epoch, size)};
  }
  const auto is_best = [&](const Standing& standing) { return standing == standings[best]; };
  if (std::ranges::all_of(standings, is_best)) return {};
  const Standing& mine = standings[static_cast<std::size_t>(group.view().rank)];
  // Who is up to date keeps what is only its own.
  std::vector<std::pair<std::span<float>, std::vector<float>>> kept;
  if (mine.step == standings[best].step) {
    for (const std::span<float> values : own_variables(*program_)) {
      kept.emplace_back(values, std::vector<float>(values.begin(), values.end()));
    }
  }
  whole_ = is_best(mine);  // then what comes is what there is
  const Status received = receive_state(static_cast<int>(best));
  for (const auto& [to, values] : kept) std::ranges::copy(values, to.begin());
  program_->parameters_changed();
  TROUPE_TRY(received);
  program_->set_step(standings[best].step);
  whole_ = true;
  return {};
}

Status MultiWorker::receive_state(int from) {
  const auto broadcast = [&](std::span<float> values, const std::string& name) -> Status {
    if (values.empty()) return {};
    return options_.communicator->broadcast(values, from, {.name = "state/" + name})->wait();
  };
  const auto all_of = [&](ParamBuffer& buffer) -> Status {
    const std::string& name = buffer.layout().group;
    TROUPE_TRY(broadcast(buffer.values(), name));
    for (std::size_t slot = 0; slot < buffer.slots().size(); ++slot) {
      TROUPE_TRY(broadcast(buffer.slot(slot), name + "." + buffer.slots()[slot]));
    }
    return {};
  };
  for (std::size_t group = 0; group < program_->group_count(); ++group) TROUPE_TRY(all_of(program_->group(group)));
  return all_of(program_->state());
}

Status MultiWorker::stage() {
  if (taken_) return Error{Code::kInvalidArgument, "stage: a step is staged already; begin() comes first"};
  collectives::Activity& activity = options_.communicator->activity();
  activity.begin_step(program_->step());
  activity.enter("input_fn");
  Result<BatchView> next = input_->next();
  if (!next.ok() && (next.error().code != Code::kOutOfRange || !input_->ends())) return next.error();
  const Signature& signature = input_->signature();
  taken_ = next.ok() ? *next : BatchView{&signature, 0, std::vector<std::span<const std::byte>>(signature.size())};
  last_ = *taken_;
  return {};
}

Status MultiWorker::begin() {
  if (!taken_) return Error{Code::kInvalidArgument, "begin: nothing is staged; stage() comes first"};
  options_.communicator->activity().begin_step(program_->step());
  TROUPE_TRY(agree_on_rows());
  TROUPE_TRY(program_->bind(*taken_));
  TROUPE_TRY(take_step([this] { return program_->run(); }));
  taken_.reset();
  return {};
}

Status MultiWorker::begin(int steps) {
  if (steps != 1) return Error{Code::kInvalidArgument, fmt::format("begin: got {} steps, expected 1", steps)};
  options_.communicator->activity().begin_step(program_->step());
  return take_step([this]() -> Status {
    TROUPE_TRY(program_->begin(1));
    TROUPE_TRY(program_->finish());
    return {};
  });
}

Status MultiWorker::take_step(const std::function<Status()>& run) {
  options_.communicator->activity().enter("compute");
  if (context_.replica_count > 1)
    TROUPE_TRY(keep_consistent(*program_, *options_.communicator, options_.check_every_steps));
  TROUPE_TRY(but_not_unavailable(run()));
  ++inputs_;
  stepped_ = true;
  return {};
}

Status MultiWorker::finish() {
  if (!std::exchange(stepped_, false)) {
    return Error{Code::kInvalidArgument, "finish: no step is under way; begin() comes first"};
  }
  options_.communicator->activity().enter("between steps");
  return check_skipped(*program_);
}

Status MultiWorker::agree_on_rows() {
  if (!input_->ends()) return {};
  auto rows = static_cast<float>(taken_->rows);
  if (context_.replica_count > 1) {
    TROUPE_TRY(options_.communicator->all_reduce({&rows, 1}, ReduceOp::kSum, {.name = "rows"})->wait());
  }
  if (rows > 0) return {};
  return Error{Code::kOutOfRange, "step: the input of all replicas has ended"};
}

}  // namespace troupe::learner
