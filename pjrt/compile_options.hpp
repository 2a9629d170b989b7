#pragma once
// How a program is compiled for PJRT devices: what the API takes as a serialised CompileOptionsProto of XLA's.
#include <string>
#include <vector>

#include <troupe/pjrt/plugin.hpp>

namespace troupe::pjrt {

struct CompileOptions {
  /// Devices that run the same program with arguments of their own, and meet in its collectives.
  int replicas = 1;
  /// Devices that share the work of one replica.
  int partitions = 1;
  /// The client's device of each replica; empty: 0 to replicas - 1.
  std::vector<std::int64_t> devices = {};
  /// Takes the least time to compile, for checks of whether a program compiles at all.
  bool quickly = false;
  /// XLA's flags, such as xla_gpu_autotune_level; text, int64 or bool. An unknown one is refused by name.
  std::vector<NamedValue> flags;
};

/// In protobuf's wire format: a few fields by their numbers, which need no compiler of .proto files.
std::string to_proto(const CompileOptions& options);

}  // namespace troupe::pjrt
