#include <troupe/replay/journal_folder.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <troupe/core/atomic_file.hpp>

namespace troupe::replay {
namespace {

Error io_error(std::string_view what, const std::string& path, int error) {
  std::string message = fmt::format("{} {}: {}", what, path, std::strerror(error));
  struct statvfs disk;
  if ((error == ENOSPC || error == EDQUOT) && statvfs(std::filesystem::path(path).parent_path().c_str(), &disk) == 0) {
    message += fmt::format(" ({} KiB free)", disk.f_bavail * disk.f_frsize / 1024);
  }
  return Error{Code::kIo, std::move(message)};
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class DiskFile final : public JournalFile {
 public:
  DiskFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return io_error("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }
  Status sync() override {
    if (fdatasync(fd_.get()) != 0) return io_error("fdatasync", path_, errno);
    return {};
  }

 private:
  const std::string path_;
  const Descriptor fd_;
};

class DiskFolder final : public JournalFolder {
 public:
  explicit DiskFolder(std::string path) : path_(std::move(path)) {}

  std::string path() const override { return path_; }

  Result<std::vector<std::string>> list() override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return io_error("list", path_, error.value());
    return names;
  }

  Result<std::uint64_t> size(const std::string& name) override {
    struct stat status;
    if (lstat(at(name).c_str(), &status) != 0) return missing_or("stat", name);
    if (!S_ISREG(status.st_mode)) {
      return Error{Code::kInvalidArgument, fmt::format("open {}: not a regular file", at(name))};
    }
    return static_cast<std::uint64_t>(status.st_size);
  }

  Result<std::size_t> read(const std::string& name, std::uint64_t offset, std::span<std::byte> out) override {
    const Descriptor file(open(at(name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.get() < 0) return missing_or("open", name);
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = pread(file.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return io_error("read", at(name), errno);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  Result<std::shared_ptr<JournalFile>> create(const std::string& name) override {
    const int fd = open(at(name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) return Error{Code::kAlreadyExists, fmt::format("create {}: exists", at(name))};
    if (fd < 0) return io_error("create", at(name), errno);
    return std::shared_ptr<JournalFile>(std::make_shared<DiskFile>(at(name), fd));
  }

  Status overwrite(const std::string& name, std::span<const std::byte> bytes, bool sync) override {
    const Descriptor file(open(at(name).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return io_error("open", at(name), errno);
    const ssize_t written = pwrite(file.get(), bytes.data(), bytes.size(), 0);
    if (written != static_cast<ssize_t>(bytes.size())) return io_error("write", at(name), written < 0 ? errno : ENOSPC);
    if (sync && fdatasync(file.get()) != 0) return io_error("fdatasync", at(name), errno);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (std::rename(at(from).c_str(), at(to).c_str()) != 0) return io_error("rename to", at(to), errno);
    return {};
  }

  Status remove(const std::string& name) override {
    if (unlink(at(name).c_str()) != 0 && errno != ENOENT) return io_error("remove", at(name), errno);
    return {};
  }

  Status sync() override { return fsync_directory(path_); }

 private:
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  Error missing_or(std::string_view what, const std::string& name) const {
    if (errno == ENOENT) return {Code::kNotFound, fmt::format("{} {}: no such file", what, at(name))};
    return io_error(what, at(name), errno);
  }

  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<JournalFolder>> open_journal_folder(const std::string& path) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  if (error) return io_error("make directory", path, error.value());
  if (made) std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  if (error) return io_error("set mode 0700 of", path, error.value());
  if (made) TROUPE_TRY(fsync_directory(std::filesystem::absolute(path).parent_path().string()));
  return std::unique_ptr<JournalFolder>(std::make_unique<DiskFolder>(path));
}

}  // namespace troupe::replay
