#pragma once
// Memory that processes of one host and user share: a file without a name, which others open by way of the process that
// has made it and nobody can make shorter under those who map it. Private to the shared-memory back end.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::collectives::detail {

struct SealedFile {
  int file = -1;
  std::uint64_t id = 0;  ///< no other file of this host has it
  std::size_t bytes = 0;
};

/// A new one, of zeros; the caller closes it. Errors: kIo.
Result<SealedFile> make_sealed_file(const char* name, std::size_t bytes);

/// Maps it for reading and writing, with `at` in place of what was mapped there. Errors: kIo.
Result<std::byte*> map_sealed_file(const SealedFile& file, void* at = nullptr);

/// Maps file descriptor `file` of a process, which must be sealed, and of so many bytes. id: of the file, or 0 for any.
/// Errors: kUnavailable (it cannot be opened or mapped); kCorrupt (something else is there).
Result<std::byte*> map_peer_file(std::int64_t process, const SealedFile& file);

}  // namespace troupe::collectives::detail
