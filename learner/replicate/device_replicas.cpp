#include <troupe/learner/replicate/device_replicas.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/collectives/nccl.hpp>
#include <troupe/collectives/reduce.hpp>
#include <troupe/core/log.hpp>
#include <troupe/learner/engine/engine.hpp>

namespace troupe::learner {

namespace {

constexpr Duration kJoinTimeout = std::chrono::seconds(30);  // threads of this process, which only have to wake up

Status check(const DeviceReplicasOptions& options) {
  if (options.replicas < 1 || options.global_batch < options.replicas) {
    return Error{Code::kInvalidArgument,
                 fmt::format("replicator: {} replicas for a global batch of {}, expected 1 to as many as rows",
                             options.replicas, options.global_batch)};
  }
  return {};
}

}  // namespace

DeviceReplicas::~DeviceReplicas() {
  // All at once, since NCCL's ranks say goodbye to each other, and on the threads that have made them.
  threads_.run([](void* at, int thread) { static_cast<OneReplica*>(at)[thread].communicator.reset(); },
               replicas_.data());
}

std::vector<Device> DeviceReplicas::devices_of_replicas() const {
  std::vector<Device> devices;
  for (std::int64_t r = 0; r < options_.replicas; ++r) {
    devices.push_back(resolve(options_.devices.empty() ? options_.compile.device : device_of(options_.devices, r)));
  }
  return devices;
}

Status DeviceReplicas::join_programs(const std::vector<Device>& devices) {
  if (devices.size() < 2) return {};
  Result<std::shared_ptr<Together>> made = options_.compile.accumulate == 1
                                               ? engine_of(devices[0]).together(devices)
                                               : Error{Code::kUnavailable, "gradients are accumulated"};
  if (!made.ok() && made.error().code != Code::kUnavailable) return made.error();
  if (!made.ok() && devices[0].is_pjrt()) {
    log::info("{}: replicas meet on the host: {}", options_.name, made.error().message);
  }
  if (!made.ok() || *made == nullptr) return {};
  together_ = *made;
  log::info("{}: {} replicas are one program on {} to {}", options_.name, devices.size(), to_string(devices.front()),
            to_string(devices.back()));
  return {};
}

bool DeviceReplicas::meet_on_gpus(const std::vector<Device>& devices) const {
  const auto through_host = [this](std::string_view why) {
    log::info("{}: gradients go through the host: {}", options_.name, why);
    return false;
  };
  if (devices.size() < 2 || std::ranges::none_of(devices, &Device::is_gpu)) return false;
  if (options_.reduce != collectives::InProcessAlgorithm::kCollective) return through_host("that is how they reduce");
  std::vector<collectives::NcclMember> members;
  for (const Device& device : devices) {
    members.emplace_back();
    if (!device.is_gpu()) continue;
    const auto member = collectives::nccl_member({.device = device.index, .interface = options_.nccl_interface});
    if (!member.ok()) {
      log::warn("{}: {}; gradients go through the host", options_.name, member.error().message);
      return false;
    }
    members.back() = *member;
  }
  const std::string why = collectives::why_not_nccl({.epoch = 1, .size = options_.replicas}, members);
  if (!why.empty()) return through_host(why);
  log::info("{}: gradients by NCCL {} on {}", options_.name, collectives::nccl_version_text(members[0].version),
            collectives::devices_text(members));
  return true;
}

Status DeviceReplicas::build(Replica& replica, Updates updates) {
  const std::int64_t rows = options_.global_batch, count = options_.replicas;
  const std::vector<Device> devices = devices_of_replicas();
  nccl_ = updates == Updates::kMirrored && meet_on_gpus(devices);
  if (updates == Updates::kMirrored) TROUPE_TRY(join_programs(devices));
  for (std::int64_t r = 0; r < count; ++r) {
    OneReplica& made = replicas_[static_cast<std::size_t>(r)];
    const InputContext context{.replica_id = static_cast<int>(r),
                               .replica_count = static_cast<int>(count),
                               .replica_batch = rows * (r + 1) / count - rows * r / count,
                               .global_batch = rows,
                               .first_step = options_.first_step,
                               .devices = options_.compile.devices};
    CompileOptions compile = options_.compile;
    compile.device = devices[static_cast<std::size_t>(r)];
    made.communicator = hub_.make();
    if (nccl_) {
      const collectives::NcclOptions nccl{.device = compile.device.index, .interface = options_.nccl_interface};
      TROUPE_ASSIGN(made.communicator, collectives::make_nccl_communicator(std::move(made.communicator), nccl));
    }
    TROUPE_ASSIGN(made.input, replica.input_fn(context));
    Graph graph(together_ ? (rows + count - 1) / count : context.replica_batch);
    ReplicaContext replica_context(graph, context, made.communicator.get());
    if (updates == Updates::kCentral) replica_context.leave_gradients();
    replica.step_fn(replica_context, StepInputs(graph, made.input->signature()));
    compile.update = updates == Updates::kMirrored || r == 0;
    if (together_) compile.seat = {together_, static_cast<int>(r), static_cast<int>(count), rows};
    TROUPE_ASSIGN(made.program, Program::compile(graph, compile));
  }
  return {};
}

Status DeviceReplicas::on_all(const std::function<Status(std::size_t)>& job) {
  struct Context {
    DeviceReplicas& self;
    const std::function<Status(std::size_t)>& job;
  } context{*this, job};
  threads_.run(
      [](void* at, int thread) {
        const auto& [self, job] = *static_cast<Context*>(at);
        OneReplica& own = self.replicas_[static_cast<std::size_t>(thread)];
        own.status = job(static_cast<std::size_t>(thread));
        if (!own.status.ok() && own.communicator->view().size > 1) {
          own.communicator->abort(fmt::format("replica {}: {}", thread, own.status.error().message));
        }
        if (!own.status.ok() && self.together_) self.together_->stop(own.status.error().message);
      },
      &context);
  const OneReplica* failed = nullptr;
  for (const OneReplica& each : replicas_) {
    if (each.status.ok()) continue;
    if (failed == nullptr || failed->status.error().code == Code::kCancelled) failed = &each;  // not the followers'
  }
  if (failed == nullptr) return {};
  joined_ = false;
  return failed->status;
}

Status DeviceReplicas::join() {
  if (joined_ || replicas_.size() == 1) return {};
  if (together_) together_->restart();
  if (const Status formed = reform(nccl_); !formed.ok()) {
    if (!nccl_) return formed;
    // Threads of one process have only NCCL to wait for.
    log::warn("{}: {}; gradients go through the host", options_.name, formed.error().message);
    nccl_ = false;
    TROUPE_TRY(reform(false));
  }
  joined_ = true;
  return {};
}

Status DeviceReplicas::reform(bool by_nccl) {
  ++epoch_;
  return on_all([this, by_nccl](std::size_t r) {
    collectives::Communicator& own = *replicas_[r].communicator;
    return (by_nccl ? own : own.host())
        .reform({.epoch = epoch_, .rank = static_cast<int>(r), .size = static_cast<int>(replicas_.size())},
                kJoinTimeout);
  });
}

Status DeviceReplicas::stage() {
  if (staged_ == steps_per_launch()) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("stage: {} of at most {} steps are staged already; begin() comes first", staged_, staged_)};
  }
  bool any = false;
  for (OneReplica& each : replicas_) {
    if (!each.fresh) {
      Result<BatchView> next = each.input->next();
      if (!next.ok() && next.error().code != Code::kOutOfRange) return next.error();
      each.batch = next.ok() ? *next : BatchView{&each.input->signature(), 0, {}};
      if (!next.ok()) each.batch->columns.resize(each.input->signature().size());
      each.fresh = true;
    }
    any |= each.batch->rows > 0;
  }
  if (any && together_) TROUPE_TRY(stage_together());
  for (OneReplica& each : replicas_) each.fresh = false;
  if (!any) return Error{Code::kOutOfRange, "step: the input of all replicas has ended"};
  ++staged_;
  return {};
}

Status DeviceReplicas::stage_together() {
  const std::int64_t most = (options_.global_batch + options_.replicas - 1) / options_.replicas;
  for (OneReplica& each : replicas_) {  // before any of them has taken its own
    if (each.batch->rows > most) {
      return Error{Code::kShapeMismatch,
                   fmt::format("stage: got {} rows of a replica, expected {} or fewer", each.batch->rows, most)};
    }
    if (staged_ > 0 && each.batch->rows != each.staged_rows) {  // it waits for the next launch
      return Error{Code::kUnavailable, "stage: the batch is of another length; begin() comes first"};
    }
  }
  for (OneReplica& each : replicas_) {
    TROUPE_TRY(each.program->stage(*each.batch));
    each.staged_rows = each.batch->rows;
  }
  return {};
}

Status DeviceReplicas::begin() {
  if (staged_ == 0) return Error{Code::kInvalidArgument, "begin: nothing is staged; stage() comes first"};
  TROUPE_TRY(join());
  TROUPE_TRY(but_not_unavailable(train()));
  staged_ = 0;
  stepped_ = true;
  return {};
}

bool DeviceReplicas::finished() {
  return std::ranges::all_of(replicas_, [](const OneReplica& each) { return each.program->finished(); });
}

Status DeviceReplicas::finish() {
  if (!std::exchange(stepped_, false)) {
    return Error{Code::kInvalidArgument, "finish: no step is under way; begin() comes first"};
  }
  if (together_) {
    TROUPE_TRY(on_all([this](std::size_t r) -> Status {
      TROUPE_TRY(replicas_[r].program->finish());
      return {};
    }));
  }
  return check_skipped(program());
}

std::span<const float> DeviceReplicas::output(std::string_view name, int step) {
  output_.clear();
  for (const OneReplica& each : replicas_) {
    const std::span<const float> rows = each.program->output(name, step);
    output_.insert(output_.end(), rows.begin(), rows.end());
  }
  return output_;
}

Result<std::unique_ptr<MultiDevice>> MultiDevice::make(Replica& replica, const DeviceReplicasOptions& options) {
  TROUPE_TRY(check(options));
  std::unique_ptr<MultiDevice> made(new MultiDevice(options));
  TROUPE_TRY(made->build(replica, Updates::kMirrored));
  return made;
}

Status MultiDevice::train() {
  const std::int64_t now = program().step(), taken = std::max<std::int64_t>(now - begun_, 1);
  TROUPE_TRY(on_all([this, taken](std::size_t r) -> Status {
    OneReplica& own = all()[r];
    TROUPE_TRY(keep_consistent(*own.program, own.communicator->host(), options().check_every_steps, taken));
    if (is_one_program()) return own.program->begin();
    TROUPE_TRY(own.program->bind(*own.batch));
    return own.program->run();
  }));
  begun_ = now;
  return {};
}

Result<std::unique_ptr<CentralStorage>> CentralStorage::make(Replica& replica, const DeviceReplicasOptions& options) {
  TROUPE_TRY(check(options));
  if (options.compile.accumulate != 1) {  // it reduces every run's gradients, and their weights may differ
    return Error{Code::kInvalidArgument,
                 fmt::format("central storage: accumulate is {}, expected 1", options.compile.accumulate)};
  }
  std::unique_ptr<CentralStorage> made(new CentralStorage(options));
  TROUPE_TRY(made->build(replica, Updates::kCentral));
  return made;
}

std::vector<std::span<const float>> CentralStorage::stored() {
  std::vector<std::span<const float>> values;
  for (std::size_t g = 0; g < program().group_count(); ++g) values.push_back(program().group(g).values());
  return values;
}

void CentralStorage::reduce_gradients() {
  std::vector<double> weights;
  for (const OneReplica& each : all()) weights.push_back(static_cast<double>(each.program->rows()));
  const std::vector<float> shares = collectives::mean_shares(weights);
  for (std::size_t g = 0; g < program().group_count(); ++g) {
    std::vector<const float*> parts;
    std::span<float> sum;
    for (const OneReplica& each : all()) {
      const std::span<float> part = each.program->gradient(each.program->group(g).layout().group);
      if (parts.empty()) sum = part;
      parts.push_back(part.data());
    }
    if (sum.empty()) continue;
    float* const out = sum.data();
    collectives::reduce_tree(parts, shares, collectives::ReduceOp::kMean, sum.size(), {&out, 1});
  }
}

Status CentralStorage::train() {
  // Replica 0 computes with these while the others copy them: nobody may ask its program for them then.
  const std::vector<std::span<const float>> values = stored();
  TROUPE_TRY(on_all([&](std::size_t r) -> Status {
    Program& own = *all()[r].program;
    if (r != 0) {
      for (std::size_t g = 0; g < values.size(); ++g) std::ranges::copy(values[g], own.group(g).values().begin());
      own.parameters_changed();
    }
    TROUPE_TRY(own.bind(*all()[r].batch));
    return own.run(Phase::kGradients);
  }));
  if (all().size() > 1) reduce_gradients();
  const std::int64_t skipped = program().skipped();
  TROUPE_TRY(program().run(Phase::kUpdate));
  if (program().skipped() != skipped) return {};
  return on_all([this](std::size_t r) -> Status { return r == 0 ? Status() : all()[r].program->run(Phase::kUpdate); });
}

}  // namespace troupe::learner
