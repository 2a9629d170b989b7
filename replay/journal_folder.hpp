#pragma once
// The few file operations that replay's journal needs, as a seam: tests put a folder in its place that fails, dies or
// loses its power at any operation. Used by replay/journal alone.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::replay {

/// A file that only grows.
class JournalFile {
 public:
  virtual ~JournalFile() = default;
  /// After an error any first part of the bytes may have been written. Errors: kIo.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  /// What was appended before is on disk when this succeeds. After an error the file must not be trusted beyond the
  /// last success: Linux drops the pages it could not write, and the next call would lie. Any thread. Errors: kIo.
  virtual Status sync() = 0;
};

/// One directory. Names have no slashes. sync(), rename() and remove() are called from a second
/// thread.
class JournalFolder {
 public:
  virtual ~JournalFolder() = default;
  virtual std::string path() const = 0;
  virtual Result<std::vector<std::string>> list() = 0;
  /// Errors: kNotFound, kInvalidArgument (not a regular file), kIo.
  virtual Result<std::uint64_t> size(const std::string& name) = 0;
  /// Fills `out` from `offset` on; returns how much there was. Errors: as size().
  virtual Result<std::size_t> read(const std::string& name, std::uint64_t offset, std::span<std::byte> out) = 0;
  /// Errors: kAlreadyExists, kIo.
  virtual Result<std::shared_ptr<JournalFile>> create(const std::string& name) = 0;
  /// Puts a few bytes (less than a sector of a disk) in place of a file's first ones, at once for who reads it on this
  /// machine. Unless `sync` is asked for, a power cut may bring the old ones back. Errors: kIo.
  virtual Status overwrite(const std::string& name, std::span<const std::byte> bytes, bool sync) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Success, too, when there is no such file.
  virtual Status remove(const std::string& name) = 0;
  /// Makes the names durable: files created, renamed and removed.
  virtual Status sync() = 0;
};

/// A directory of this machine, made (0700) if it is missing. Errors: kIo.
Result<std::unique_ptr<JournalFolder>> open_journal_folder(const std::string& path);

}  // namespace troupe::replay
