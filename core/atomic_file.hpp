#pragma once
// Files that are either complete on disk or not there: write to a temporary, fsync, rename, fsync the directory.
// Used for checkpoints, summaries and resolved configs.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/sha256.hpp>

namespace troupe {

/// Writes one new file from start to end and keeps its size and SHA-256. Blocks for the disk.
class FileWriter {
 public:
  /// `mode`: the permissions, less the umask. Errors: kAlreadyExists, kIo.
  static Result<FileWriter> create(const std::string& path, unsigned mode = 0644);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();  ///< Closes; what was not finished is not durable.

  /// Errors: kIo naming the file (and free space when the disk is full).
  Status append(std::span<const std::byte> bytes);

  struct Written {
    std::uint64_t bytes = 0;
    std::string sha256;  ///< hexadecimal
  };
  /// fsyncs and closes: the content is on disk when this succeeds. After an fsync error the file must be discarded, as
  /// Linux drops the dirty pages and a second fsync would lie.
  Result<Written> finish();

 private:
  FileWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  Sha256 hash_;
};

/// Makes the entries of a directory (created, renamed, removed names) durable.
Status fsync_directory(const std::string& path);

/// Replaces `path` by `bytes` atomically and durably; on error the old content is untouched. `mode` as in create().
/// Temporary files that killed writers of `path` left behind go too.
Status write_file_atomic(const std::string& path, std::span<const std::byte> bytes, unsigned mode = 0644);
Status write_file_atomic(const std::string& path, std::string_view text, unsigned mode = 0644);

/// Replaces `path` by `text` in one step for whoever reads it, without waiting for the disk: a power cut may leave it
/// empty. For what is written anew all the time. On error the old content is untouched. Errors: kIo.
Status replace_file(const std::string& path, std::string_view text);

/// The whole of a regular file; symbolic links are refused. Nothing is allocated beyond the size that the file has.
/// Errors: kNotFound, kInvalidArgument (larger than max_bytes, or not a regular file), kIo.
Result<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t max_bytes);

}  // namespace troupe
