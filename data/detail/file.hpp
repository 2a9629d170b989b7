#pragma once
// Files that are read at random. Symbolic links are followed: data sets are often trees of them.
#include <cstdint>
#include <filesystem>
#include <span>

#include <troupe/core/error.hpp>

namespace troupe::data::detail {

/// An open file. Reading is for any thread. Errors name the file.
class File {
 public:
  /// Errors: kNotFound, kIo; kInvalidArgument for what is no regular file, such as a directory.
  static Result<File> open(const std::filesystem::path& path);
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  ~File();

  std::uint64_t bytes() const { return bytes_; }
  /// Fills `out` from `offset` on. Errors: kCorrupt where the file ends before; kIo.
  Status read_at(std::uint64_t offset, std::span<std::uint8_t> out) const;

 private:
  File(std::filesystem::path path, int fd, std::uint64_t bytes) : path_(std::move(path)), fd_(fd), bytes_(bytes) {}
  std::filesystem::path path_;
  int fd_;
  std::uint64_t bytes_;
};

}  // namespace troupe::data::detail
