#pragma once
// Child processes that cannot outlive their parent: the one way in which the launcher and the tether start something.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps::detail {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A pipe whose ends are not inherited by children and whose end for us never blocks. Errors: kIo.
struct Pipe {
  Fd read, write;
};
enum class OurEnd { kRead, kWrite };
Result<Pipe> make_pipe(OurEnd ours);

/// A nameless file in memory that holds `text`, to be read from its start. Errors: kIo.
Result<Fd> memory_file(std::string_view text);

/// Blocks signals for the whole time of its life and delivers them as reads of fd(); children get the old mask back.
/// SIGHUP is left out where it is ignored (nohup).
/// SIGPIPE is ignored meanwhile. Made on the thread that starts the children.
class SignalFd {
 public:
  static Result<SignalFd> make(const std::vector<int>& signals);
  SignalFd(SignalFd&& other) noexcept : fd_(std::move(other.fd_)), old_mask_(other.old_mask_) {}
  ~SignalFd();

  int fd() const { return fd_.get(); }
  std::optional<int> next();  ///< The next signal that came, if any; never blocks.
  const sigset_t& old_mask() const { return old_mask_; }

 private:
  SignalFd(Fd fd, const sigset_t& old_mask) : fd_(std::move(fd)), old_mask_(old_mask) {}
  Fd fd_;
  sigset_t old_mask_;
};

/// Starts `command` (found in PATH) as the leader of a process group of its own with these standard files. It is killed
/// when the calling *thread* ends, however that comes about. When the program cannot be started, the child says so on
/// `err` and ends with 127 (not found) or 126. Errors: kIo when there is no process to be had.
struct ChildFiles {
  int in = 0, out = 1, err = 2;
};
Result<pid_t> start_child(const std::vector<std::string>& command, const ChildFiles& files, const SignalFd& signals);

/// How a child ended, once it has.
struct Ending {
  bool signalled = false;
  int number = 0;  ///< of the signal, or the exit code

  int exit_code() const { return signalled ? 128 + number : number; }  ///< as shells say it
};

/// Whether the child has ended; then all that is left of its process group is killed too. Never blocks.
std::optional<Ending> reap(pid_t pid);

/// Ends a child that stays stopped (SIGSTOP). The chief declares such a node dead, and its next process should not have
/// to wait until somebody lets this one go on, only to hear that it is fenced.
class StoppedChild {
 public:
  /// To be called on every SIGCHLD and at the time that it returned, if any. Kills the child's process group when the
  /// child has been stopped for `kStoppedMax`. Never blocks.
  std::optional<Duration> watch(pid_t pid, Duration now);

 private:
  std::optional<Duration> since_;
};
/// A little more than the silence after which the chief declares a node dead.
inline constexpr Duration kStoppedMax = std::chrono::milliseconds(1500);

}  // namespace troupe::apps::detail
