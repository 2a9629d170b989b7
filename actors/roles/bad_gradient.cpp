#include <troupe/actors/roles/bad_gradient.hpp>

#include <fmt/format.h>

#include <utility>

#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {

Error keep_bad_batch(Error error, const BatchView& batch, const std::filesystem::path& run_directory,
                     const std::string& instance) {
  error.code = kBadGradient;
  if (run_directory.empty() || batch.signature == nullptr) return error;
  const std::string file = (run_directory / fmt::format("bad_batch-{}.safetensors", instance)).string();
  const Status saved = learner::save_batch(batch, file);
  error.message += saved.ok() ? fmt::format("; the last batch is in {}", file)
                              : fmt::format("; the last batch could not be kept: {}", saved.error().message);
  return error;
}

Error bad_gradient(Error error, const learner::Program& program, const BatchView& batch,
                   const std::filesystem::path& run_directory, const std::string& instance) {
  if (program.skipped_in_a_row() < learner::kMaxSkippedInARow) return error;
  return keep_bad_batch(std::move(error), batch, run_directory, instance);
}

}  // namespace troupe::actors
