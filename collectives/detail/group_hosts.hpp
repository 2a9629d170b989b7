#pragma once
// Who shares memory with whom in a group, and so who speaks for whom between hosts: what the hierarchical all-reduce
// needs to know, the same at every rank. Private to the communicator over peers.
#include <optional>
#include <string>
#include <vector>

#include <troupe/collectives/communicator.hpp>

namespace troupe::collectives::detail {

struct GroupHosts {
  /// The ranks that exchange between hosts, ascending: the lowest of each host whose members share memory, and everyone
  /// else.
  std::vector<int> speakers;
  /// The ranks that share memory with this one, itself among them, ascending; alone, it is not shared.
  std::vector<int> own;
  /// Reducing every host first, and then over the speakers, is the tree over all ranks: hosts hold blocks of one power
  /// of two, aligned, and only the last may be shorter.
  bool keeps_tree = true;

  bool is_shared() const { return own.size() > 1; }
  bool all_shared(int size) const { return static_cast<int>(own.size()) == size; }
};

/// shares: by rank, whether it shares memory with its host's members; a host does when all of them do.
GroupHosts group_hosts(const GroupView& view, const std::vector<bool>& shares);

/// The view's group as seen by `ranks` of it, which `view.rank` is one of: they are numbered in their order.
GroupView view_of_ranks(const GroupView& view, const std::vector<int>& ranks);

}  // namespace troupe::collectives::detail
