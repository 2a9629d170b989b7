#include <troupe/learner/replicate/make_replicator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>

namespace troupe::learner {

namespace {

constexpr std::array<std::string_view, 4> kNames{"one_device", "multi_device", "central_storage", "multi_worker"};

template <typename T>
Result<std::unique_ptr<Replicator>> as_replicator(Result<std::unique_ptr<T>> made) {
  if (!made.ok()) return made.error();
  return std::unique_ptr<Replicator>(std::move(made).value());
}

}  // namespace

std::string_view to_string(ReplicatorKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<ReplicatorKind> replicator_kind(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return {};
  return static_cast<ReplicatorKind>(found - kNames.begin());
}

Result<CompileOptions> in_stripes(CompileOptions compile, int replicas, std::int64_t global_batch) {
  // A power of two of stripes each: only such subtrees of the sum's tree are whole (tree_sum.hpp).
  if (replicas < 1 || kStripes % replicas != 0 || global_batch % kStripes != 0) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("deterministic: {} replicas and a global batch of {}, expected 1, 2, 4 or 8 and a multiple "
                    "of {}",
                    replicas, global_batch, kStripes)};
  }
  compile.stripes = kStripes / replicas;
  compile.plans = PlanChoice::kByRule;  // replicas in other processes might measure otherwise
  return compile;
}

Result<std::unique_ptr<Replicator>> make_replicator(Replica& replica, const ReplicatorOptions& options) {
  const bool devices = options.kind == ReplicatorKind::kMultiDevice || options.kind == ReplicatorKind::kCentralStorage;
  const int replicas = devices ? options.replicas : 1;
  if (options.kind == ReplicatorKind::kMultiWorker && options.communicator == nullptr) {
    return Error{Code::kInvalidArgument, "multi_worker: no communicator"};
  }
  CompileOptions compile = options.compile;
  if (options.deterministic && options.kind != ReplicatorKind::kMultiWorker) {  // whose size is not known yet
    TROUPE_ASSIGN(compile, in_stripes(compile, replicas, options.global_batch));
  }
  const DeviceReplicasOptions of_devices{.replicas = replicas,
                                         .global_batch = options.global_batch,
                                         .compile = compile,
                                         .devices = options.devices,
                                         .first_step = options.first_step,
                                         .reduce = options.reduce,
                                         .nccl_interface = options.nccl_interface,
                                         .name = options.name};
  switch (options.kind) {
    case ReplicatorKind::kOneDevice:
      return as_replicator(OneDevice::make(
          replica, {.batch = options.global_batch, .compile = compile, .first_step = options.first_step}));
    case ReplicatorKind::kMultiDevice:
      return as_replicator(MultiDevice::make(replica, of_devices));
    case ReplicatorKind::kCentralStorage:
      return as_replicator(CentralStorage::make(replica, of_devices));
    case ReplicatorKind::kMultiWorker:
      return as_replicator(
          MultiWorker::make(replica, {.batch = options.member_batch,
                                      .global_batch = options.member_batch > 0 ? 0 : options.global_batch,
                                      .deterministic = options.deterministic,
                                      .wire = options.wire,
                                      .compile = options.compile,
                                      .communicator = options.communicator,
                                      .nccl_interface = options.nccl_interface,
                                      .members_take_turns = options.members_take_turns,
                                      .name = options.name}));
  }
  return Error{Code::kInvalidArgument, "make_replicator: unknown kind"};
}

}  // namespace troupe::learner
