#include <troupe/apps/commands/page_child.hpp>

#include <fmt/core.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <troupe/apps/cluster/detail/child.hpp>

namespace troupe::apps {
namespace {

/// It ends within a second; one that does not is killed with the process that has started it.
constexpr Duration kEnds = std::chrono::seconds(5);

}  // namespace

struct PageChild::Impl {
  detail::SignalFd signals;  ///< of none: what the child needs of it is that nothing is blocked
  pid_t pid = -1;
};

PageChild::PageChild(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PageChild::PageChild(PageChild&& other) noexcept = default;

Result<PageChild> PageChild::start(const RunDirectory& run) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Error{Code::kIo, fmt::format("/proc/self/exe: {}", error.message())};
  TROUPE_ASSIGN(detail::SignalFd signals, detail::SignalFd::make({}));
  auto impl = std::make_unique<Impl>(Impl{std::move(signals)});
  // A path that begins with a dash is no option.
  TROUPE_ASSIGN(impl->pid,
                detail::start_child({self.string(), "watch", "--await", "--", run.path.string()}, {}, impl->signals));
  return PageChild(std::move(impl));
}

PageChild::~PageChild() {
  if (!impl_) return;
  kill(impl_->pid, SIGTERM);
  const SteadyClock clock;
  const Duration give_up = clock.now() + kEnds;
  while (!detail::reap(impl_->pid) && clock.now() < give_up) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace troupe::apps
