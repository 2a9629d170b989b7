#pragma once
// Where a command writes what somebody asked for by name: -o FILE. One mechanism for all commands.
//   -                      the standard output; what the command has to say goes to the standard error then
//   a new or regular file  is replaced as a whole once all of it has been written
//   a symbolic link        stays, and what it points to is written
//   a device, a FIFO       is written to, and stays what it is
// A command's own inputs are refused, and so are names that do not fit what is written.
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::apps {

struct OutputOptions {
  std::string_view option = "-o";  ///< what errors call it
  /// Files that the command reads, which writing would destroy.
  std::vector<std::filesystem::path> inputs = {};
  /// A run directory whose own records are not to be overwritten either; empty: none.
  std::filesystem::path run = {};
  bool secret = false;  ///< nobody else may read it
};

class Output {
 public:
  /// Looks at what is there; writes nothing yet, so that a command knows before it begins to work.
  /// Errors: kInvalidArgument (no name, a directory, an input), kNotFound (no folder to write it to), kIo (not
  /// writable).
  static Result<Output> at(const std::string& path, OutputOptions options = {});

  /// Errors: kIo; kDeadlineExceeded when nobody reads a FIFO.
  Status write(std::span<const std::byte> bytes) const;
  Status write(std::string_view text) const;

  /// Where to say what has been written: the standard output, unless that is what was written.
  std::FILE* messages() const { return kind_ == Kind::kStandardOutput ? stderr : stdout; }
  bool is_stream() const { return kind_ != Kind::kFile; }
  /// The path as people may see it.
  std::string shown() const;

  /// The one of `formats` ("svg", "png") that the name's suffix says, in any case. A stream, which has no suffix of its
  /// own, gets `otherwise`. Errors: kInvalidArgument: another suffix or none.
  Result<std::string> format(std::span<const std::string_view> formats, std::string_view otherwise) const;

 private:
  enum class Kind { kFile, kThrough, kStandardOutput };
  std::string name_;  ///< as it was given
  std::string option_;
  std::filesystem::path target_;
  Kind kind_ = Kind::kFile;
  int descriptor_ = -1;  ///< of the process, when the name stands for one: /dev/fd/63
  unsigned mode_ = 0644;
};

}  // namespace troupe::apps
