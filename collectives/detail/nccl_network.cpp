#include <troupe/collectives/detail/nccl_network.hpp>

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::collectives::detail {
namespace {

constexpr const char* kLoopback = "lo";

Result<std::vector<std::string>> interfaces_of_this_host() {
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(), &if_freenameindex);
  if (!all) {
    return Error{Code::kInternal, fmt::format("nccl: cannot list the network interfaces: {}", std::strerror(errno))};
  }
  std::vector<std::string> names;
  for (const struct if_nameindex* one = all.get(); one->if_name; ++one) names.emplace_back(one->if_name);
  return names;
}

std::string host_of(const Member& member) {
  return member.host.empty() ? "an unknown host" : fmt::format("host \"{}\"", member.host);
}

}  // namespace

Status confine_nccl(const std::string& interface) {
  const std::string wanted = interface.empty() ? kLoopback : interface;
  TROUPE_ASSIGN(const std::vector<std::string> names, interfaces_of_this_host());
  if (std::find(names.begin(), names.end(), wanted) == names.end()) {
    return Error{Code::kInvalidArgument, fmt::format("nccl: interface is \"{}\", expected one of this host's: {}",
                                                     wanted, fmt::join(names, ", "))};
  }
  // The environment belongs to the process, and so does this choice. setenv() is not safe beside a getenv() of another
  // thread, so it happens once; NCCL's own threads, which read it, begin only after it.
  static std::mutex mutex;
  static std::string chosen;
  const std::lock_guard lock(mutex);
  if (chosen == wanted) return {};
  if (!chosen.empty()) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("nccl: interface is \"{}\", expected \"{}\": this process's NCCL was confined to that before, and "
                    "it chooses once",
                    wanted, chosen)};
  }
  // "=": this name, and not all names that begin so.
  if (setenv("NCCL_SOCKET_IFNAME", ("=" + wanted).c_str(), 1) != 0 ||
      // Would win over the name, and make an id that can be guessed.
      unsetenv("NCCL_COMM_ID") != 0 ||
      // A listener that tells anybody on the host what the job does.
      setenv("NCCL_RAS_ENABLE", "0", 1) != 0 ||
      // Loopback is all that was allowed; RDMA would be another network.
      (wanted == kLoopback && setenv("NCCL_IB_DISABLE", "1", 1) != 0)) {
    return Error{Code::kInternal, fmt::format("nccl: cannot set its environment: {}", std::strerror(errno))};
  }
  chosen = wanted;
  return {};
}

Status check_hosts(const GroupView& view, const std::string& interface) {
  if (!interface.empty() || view.members.empty() || view.size == 1) return {};  // no members: threads of one process
  const Member& first = view.members.front();
  for (std::size_t rank = 1; rank < view.members.size(); ++rank) {
    const Member& member = view.members[rank];
    if (!member.host.empty() && member.host == first.host) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("nccl: in the group of epoch {} rank 0 is on {} and rank {} on {}: between hosts expected "
                             "NcclOptions::interface to name a network interface whose network is trusted, since "
                             "NCCL's sockets authenticate nobody; got none",
                             view.epoch, host_of(first), rank, host_of(member))};
  }
  return {};
}

}  // namespace troupe::collectives::detail
