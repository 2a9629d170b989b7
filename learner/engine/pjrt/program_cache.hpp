#pragma once
// Programs as a plug-in has compiled them, kept in the user's cache folder from one process to the next: a run that is
// started again, and each further process of it, need not compile for seconds, on TPUs for minutes. What JAX calls its
// persistent compilation cache.
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/pjrt/client.hpp>

namespace troupe::learner {

/// One file for each program, called by a hash of all that it follows from: text, options, plug-in, devices, processor
/// and the variables that XLA reads. A file is there as a whole or not at all, and has a hash of its content; one that
/// is damaged, or that the plug-in does not take, is said once and made anew. Processes and threads may share a folder.
class ProgramCache {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;

  /// folder: made when first needed; "" keeps nothing. bytes_max: of all files together; those unused for longest go.
  explicit ProgramCache(std::string folder, std::uint64_t bytes_max = kBytes);

  /// Client::compile(), or what it gave before. A program that the plug-in cannot write down, or that finds no place,
  /// is not kept. Errors: those of Client::compile().
  Result<pjrt::LoadedExecutable> program(const pjrt::Client& client, std::string_view stablehlo,
                                         const pjrt::CompileOptions& options) const;

 private:
  std::string folder_;
  std::uint64_t bytes_max_;
};

/// The user's: troupe/programs in cache_folder().
const ProgramCache& program_cache();

}  // namespace troupe::learner
