#include <troupe/collectives/detail/group_hosts.hpp>

#include <algorithm>
#include <bit>
#include <map>

namespace troupe::collectives::detail {

GroupHosts group_hosts(const GroupView& view, const std::vector<bool>& shares) {
  std::map<std::string, std::vector<int>> by_host;
  for (int rank = 0; rank < view.size; ++rank)
    by_host[view.members[static_cast<std::size_t>(rank)].host].push_back(rank);
  GroupHosts hosts{.own = {view.rank}};
  std::vector<std::vector<int>> blocks;
  for (const auto& [host, ranks] : by_host) {
    const bool shared = !host.empty() && std::all_of(ranks.begin(), ranks.end(),
                                                     [&](int rank) { return shares[static_cast<std::size_t>(rank)]; });
    if (shared && std::find(ranks.begin(), ranks.end(), view.rank) != ranks.end()) hosts.own = ranks;
    if (shared) {
      blocks.push_back(ranks);
    } else {
      for (const int rank : ranks) blocks.push_back({rank});
    }
  }
  std::sort(blocks.begin(), blocks.end());
  const std::size_t block = blocks[0].size();
  int next = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    hosts.speakers.push_back(blocks[b][0]);
    const bool last = b + 1 == blocks.size();
    if (last ? blocks[b].size() > block : blocks[b].size() != block) hosts.keeps_tree = false;
    for (const int rank : blocks[b]) hosts.keeps_tree = hosts.keeps_tree && rank == next++;
  }
  if (blocks.size() > 1 && !std::has_single_bit(block)) hosts.keeps_tree = false;
  return hosts;
}

GroupView view_of_ranks(const GroupView& view, const std::vector<int>& ranks) {
  GroupView part{.epoch = view.epoch, .size = static_cast<int>(ranks.size())};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == view.rank) part.rank = static_cast<int>(i);
    part.members.push_back(view.members[static_cast<std::size_t>(ranks[i])]);
  }
  return part;
}

}  // namespace troupe::collectives::detail
