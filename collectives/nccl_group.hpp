#pragma once
// Whether a group's values go between its GPUs by NCCL or through the hosts: each member says what it has, and all
// decide alike from what all have said, so that nobody waits in an init to which others do not come. Used by
// learner's replicators before they form an epoch of NCCL (nccl.hpp).
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>

namespace troupe::collectives {

/// What a member has for NCCL.
struct NcclMember {
  int device = -1;             ///< index of its GPU in its process; -1: it computes on the processor
  int version = 0;             ///< as ncclGetVersion says it; 0: it has no NCCL, or will not use it
  std::uint64_t gpu = 0;       ///< which GPU of its host that is, whatever index processes give it
  std::uint64_t loopback = 0;  ///< which of its host's, since containers have their own
  bool interface = false;      ///< the user has named it a network interface for NCCL's sockets
  friend bool operator==(const NcclMember&, const NcclMember&) = default;
};

/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

/// What all members of the group say, by rank. A collective of the group on the host. Errors: the communicator's.
Result<std::vector<NcclMember>> gather_nccl_members(Communicator& host, const NcclMember& own);

/// Why the group's values cannot go by NCCL, in words that name ranks; empty: they can. The same on all members, since
/// it depends on nothing else. NCCL wants a GPU for each rank, one version, and members that are known to have one
/// loopback, where its sockets stay, unless all of them name an interface.
std::string why_not_nccl(const GroupView& view, std::span<const NcclMember> members);

/// "cuda:0, cuda:1": the members' GPUs by rank.
std::string devices_text(std::span<const NcclMember> members);

}  // namespace troupe::collectives
