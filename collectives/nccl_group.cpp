#include <troupe/collectives/nccl_group.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <vector>

namespace troupe::collectives {
namespace {

constexpr std::size_t kNumbers = 5;

std::array<std::int64_t, kNumbers> numbers_of(const NcclMember& member) {
  return {member.device, member.version, member.interface ? 1 : 0, std::bit_cast<std::int64_t>(member.gpu),
          std::bit_cast<std::int64_t>(member.loopback)};
}

NcclMember member_of(std::span<const std::int64_t, kNumbers> numbers) {
  return {.device = static_cast<int>(numbers[0]),
          .version = static_cast<int>(numbers[1]),
          .gpu = std::bit_cast<std::uint64_t>(numbers[3]),
          .loopback = std::bit_cast<std::uint64_t>(numbers[4]),
          .interface = numbers[2] != 0};
}

/// "rank 1 (node B, learner-1)".
std::string name_of(const GroupView& view, std::size_t rank) {
  if (rank >= view.members.size() || view.members[rank].name.empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({})", rank, view.members[rank].name);
}

/// Members without names are threads of one process.
bool on_one_host(const GroupView& view, std::size_t a, std::size_t b) {
  if (view.members.empty()) return true;
  return !view.members[a].host.empty() && view.members[a].host == view.members[b].host;
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<std::vector<NcclMember>> gather_nccl_members(Communicator& host, const NcclMember& own) {
  TROUPE_ASSIGN(const auto all, host.gather_integers(numbers_of(own), {.name = "nccl members"}));
  std::vector<NcclMember> members;
  for (std::size_t at = 0; at < all.size(); at += kNumbers) {
    members.push_back(member_of(std::span(all).subspan(at).first<kNumbers>()));
  }
  return members;
}

std::string why_not_nccl(const GroupView& view, std::span<const NcclMember> members) {
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].device < 0) return fmt::format("{} is on the processor", name_of(view, rank));
  }
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const NcclMember& member = members[rank];
    if (member.version == 0) return fmt::format("{} has no NCCL to use, as its own log says", name_of(view, rank));
    if (member.version != members[0].version) {
      return fmt::format("{} has NCCL {} and {} has NCCL {}", name_of(view, 0), nccl_version_text(members[0].version),
                         name_of(view, rank), nccl_version_text(member.version));
    }
    for (std::size_t other = 0; other < rank; ++other) {
      if (on_one_host(view, other, rank) && members[other].gpu == member.gpu) {
        return fmt::format("{} and {} share a GPU, and NCCL wants one for each", name_of(view, other),
                           name_of(view, rank));
      }
    }
  }
  for (std::size_t rank = 1; rank < members.size(); ++rank) {
    if (on_one_host(view, 0, rank) && members[rank].loopback == members[0].loopback) continue;
    for (std::size_t each = 0; each < members.size(); ++each) {
      if (members[each].interface) continue;
      return fmt::format(
          "{} and {} are not known to share a loopback, and on a network NCCL's sockets, which authenticate nobody, "
          "may only be where security.nccl_interface says that it is trusted: it names none",
          name_of(view, 0), name_of(view, rank));
    }
  }
  return {};
}

std::string devices_text(std::span<const NcclMember> members) {
  std::vector<std::string> names;
  for (const NcclMember& member : members) names.push_back(fmt::format("cuda:{}", member.device));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace troupe::collectives
