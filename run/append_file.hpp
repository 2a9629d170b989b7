#pragma once
// A file that grows by whole records while a run lasts: metrics.csv and TensorBoard's event files.
#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::apps {

/// Buffered appends; what was flushed survives the death of the process. Whatever fails, the file ends with a whole
/// record: when the disk is full, what was appended since the last flush is lost, and the next flush tries again with
/// what comes then. At most 1 MiB waits for a flush. Not thread-safe.
class AppendFile {
 public:
  /// Opens at the end of the file and makes it if it is absent. Errors: kIo.
  static Result<AppendFile> open(std::string path);

  /// Errors: kIo with the system's reason (disk full).
  Status append(std::string_view record);
  Status flush();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  AppendFile(std::string path, std::FILE* file, off_t bytes) : path_(std::move(path)), file_(file), bytes_(bytes) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  off_t bytes_ = 0;  ///< of whole records in the file
  std::string pending_;
};

}  // namespace troupe::apps
