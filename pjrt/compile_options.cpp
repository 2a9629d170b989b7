#include <troupe/pjrt/compile_options.hpp>

#include <troupe/core/proto_writer.hpp>

namespace troupe::pjrt {

namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto.
enum : int { kBuildOptions = 3, kOverrides = 7 };                                         // CompileOptionsProto
enum : int { kReplicas = 4, kPartitions = 5, kAssignment = 9, kOptimizationLevel = 24 };  // ExecutableBuildOptionsProto
enum : int { kReplicaCount = 1, kComputationCount = 2, kComputation = 3, kDevice = 1 };   // DeviceAssignmentProto
enum : int { kKey = 1, kValue = 2 };                                                      // an entry of a map
enum : int { kText = 1, kBoolean = 2, kInteger = 3 };                                     // OptionOverrideProto
constexpr int kO0 = 9;  // ExecutionOptions.EffortLevel

}  // namespace

std::string to_proto(const CompileOptions& options) {
  ProtoWriter build;
  build.add_int(kReplicas, options.replicas);
  build.add_int(kPartitions, options.partitions);
  if (!options.devices.empty()) {
    ProtoWriter computation, assignment;
    for (const std::int64_t device : options.devices) computation.add_int(kDevice, device);
    assignment.add_int(kReplicaCount, options.replicas);
    assignment.add_int(kComputationCount, 1);
    assignment.add_message(kComputation, computation);
    build.add_message(kAssignment, assignment);
  }
  if (options.quickly) build.add_int(kOptimizationLevel, kO0);
  ProtoWriter made;
  made.add_message(kBuildOptions, build);
  for (const NamedValue& flag : options.flags) {
    ProtoWriter value, entry;
    if (const auto* number = std::get_if<std::int64_t>(&flag.value)) {
      value.add_int(kInteger, *number);
    } else if (const auto* yes = std::get_if<bool>(&flag.value)) {
      value.add_int(kBoolean, *yes ? 1 : 0);
    } else if (const auto* text = std::get_if<std::string>(&flag.value)) {
      value.add_string(kText, *text);
    }
    entry.add_string(kKey, flag.name);
    entry.add_message(kValue, value);
    made.add_message(kOverrides, entry);
  }
  return made.bytes();
}

}  // namespace troupe::pjrt
