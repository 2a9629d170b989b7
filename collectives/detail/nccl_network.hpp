#pragma once
// Where NCCL's own sockets may be. They authenticate nobody and encrypt nothing (docs/security.md), so they stay on
// loopback unless the user names an interface whose network is trusted. Private to the NCCL back end.
#include <string>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>

namespace troupe::collectives::detail {

/// Confines the sockets of this process's NCCL to `interface`, or to loopback when that is empty. Before the first call
/// of NCCL, which reads the environment once: what was chosen first holds for the life of the process.
/// Errors: kInvalidArgument (no such interface here, or another one was chosen before).
Status confine_nccl(const std::string& interface);

/// Errors: kInvalidArgument when a group is not known to be on one host, and no interface is named.
Status check_hosts(const GroupView& view, const std::string& interface);

}  // namespace troupe::collectives::detail
