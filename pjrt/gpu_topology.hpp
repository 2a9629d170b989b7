#pragma once
// NVIDIA's GPUs as topologies of JAX's CUDA plug-in, which takes them by what they are instead of a name: XLA compiles
// for them on a machine without one, and without a driver. It runs the toolkit's ptxas.
#include <string_view>
#include <vector>

#include <troupe/pjrt/plugin.hpp>

namespace troupe::pjrt {

/// Whether a topology is called as a GPU that is known here: "a100", "h100" or "h200", perhaps with a colon and
/// numbers.
bool is_gpu_topology(std::string_view name);
/// The plug-in's options for "h100:8" (one host) or "h100:2x8" (hosts x GPUs of each). Errors: kInvalidArgument.
Result<std::vector<NamedValue>> gpu_topology(std::string_view name);

}  // namespace troupe::pjrt
