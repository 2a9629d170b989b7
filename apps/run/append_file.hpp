#pragma once
// A file that grows by whole records while a run lasts: metrics.csv and TensorBoard's event files.
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe::apps {

/// Buffered appends; what was flushed survives the death of the process. Not thread-safe.
class AppendFile {
 public:
  /// Opens at the end of the file and makes it if it is absent. Errors: kIo.
  static Result<AppendFile> open(std::string path);

  /// Errors: kIo with the system's reason (disk full).
  Status append(std::string_view bytes);
  Status flush();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  AppendFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Error failed(std::string_view what) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace troupe::apps
