#pragma once
// What follows when a gradient was not finite in too many steps in a row: the run ends as its last checkpoint has it,
// and the batch is kept for whoever looks for the cause. For the roles that train; the skipping itself is the
// program's (learner/engine/program.hpp), so the parameters are still those before the first of these steps.
#include <filesystem>
#include <string>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::actors {

/// RestartPolicy::ends_run of the roles that train.
inline constexpr Code kBadGradient = Code::kOutOfRange;

/// Writes `batch` to RUN/bad_batch-INSTANCE.safetensors, and gives `error` the code kBadGradient and that file's name.
Error keep_bad_batch(Error error, const BatchView& batch, const std::filesystem::path& run_directory,
                     const std::string& instance);

/// The same, if the step was the last of kMaxSkippedInARow that `program` skipped; else `error` as it is.
Error bad_gradient(Error error, const learner::Program& program, const BatchView& batch,
                   const std::filesystem::path& run_directory, const std::string& instance);

}  // namespace troupe::actors
