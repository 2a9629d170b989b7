#include <troupe/apps/cluster/detail/child.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace troupe::apps::detail {
namespace {

Error system_error(const char* what) { return Error{Code::kIo, fmt::format("{}: {}", what, std::strerror(errno))}; }

/// Between fork and exec only calls that are safe in a signal handler are allowed: another thread may hold any lock.
[[noreturn]] void become(char* const* arguments, const ChildFiles& files, const sigset_t& mask, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before the line above
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (dup2(files.in, 0) < 0 || dup2(files.out, 1) < 0 || dup2(files.err, 2) < 0) _exit(126);
  execvp(arguments[0], arguments);
  const int error = errno;
  const auto say = [](const char* text) { [[maybe_unused]] const auto written = write(2, text, std::strlen(text)); };
  say("cannot execute ");
  say(arguments[0]);
  say(error == ENOENT ? ": no such program\n" : ": not executable\n");
  _exit(error == ENOENT ? 127 : 126);
}

}  // namespace

Result<Pipe> make_pipe(OurEnd ours) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  if (fcntl(ours == OurEnd::kRead ? ends[0] : ends[1], F_SETFL, O_NONBLOCK) != 0) return system_error("fcntl");
  return pipe;
}

Result<Fd> memory_file(std::string_view text) {
  Fd file(memfd_create("troupe-input", MFD_CLOEXEC));
  if (!file.open()) return system_error("memfd_create");
  while (!text.empty()) {
    const ssize_t written = write(file.get(), text.data(), text.size());
    if (written <= 0) return system_error("memfd");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (lseek(file.get(), 0, SEEK_SET) != 0) return system_error("memfd");
  return file;
}

Result<SignalFd> SignalFd::make(const std::vector<int>& signals) {
  sigset_t mask, old_mask;
  sigemptyset(&mask);
  for (const int signal : signals) {
    // Blocked, an ignored signal would be delivered after all; under nohup SIGHUP is not to be.
    struct sigaction now = {};
    const bool nohup = signal == SIGHUP && sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!nohup) sigaddset(&mask, signal);
  }
  if (pthread_sigmask(SIG_BLOCK, &mask, &old_mask) != 0) return system_error("sigmask");
  Fd fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.open()) {
    const Error error = system_error("signalfd");
    pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
    return error;
  }
  signal(SIGPIPE, SIG_IGN);
  return SignalFd(std::move(fd), old_mask);
}

SignalFd::~SignalFd() {
  if (!fd_.open()) return;  // moved from
  while (next()) {          // what came meanwhile was for us
  }
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

std::optional<int> SignalFd::next() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

Result<pid_t> start_child(const std::vector<std::string>& command, const ChildFiles& files, const SignalFd& signals) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) become(arguments.data(), files, signals.old_mask(), parent);
  setpgid(pid, pid);  // the child does it too; whoever is first
  return pid;
}

std::optional<Ending> reap(pid_t pid) {
  siginfo_t info = {};
  // The zombie is kept until its group is killed: only so long is the group's number surely ours.
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid) return {};
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return Ending{info.si_code != CLD_EXITED, info.si_status};
}

std::optional<Duration> StoppedChild::watch(pid_t pid, Duration now) {
  siginfo_t info = {};
  // Whoever is left waitable is still stopped at the next question.
  const bool stopped =
      waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
  if (!stopped) {
    since_.reset();
    return {};
  }
  if (!since_) since_ = now;
  if (now < *since_ + kStoppedMax) return *since_ + kStoppedMax;
  kill(-pid, SIGKILL);
  since_.reset();
  return {};
}

}  // namespace troupe::apps::detail
