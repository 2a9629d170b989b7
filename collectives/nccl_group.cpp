#include <troupe/collectives/nccl_group.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>

namespace troupe::collectives {
namespace {

/// Whole numbers below 2^16 are exact as floats, whatever carries them.
constexpr std::size_t kFloats = 12;

std::array<float, kFloats> pack(const NcclMember& member) {
  std::array<float, kFloats> floats{static_cast<float>(member.device), static_cast<float>(member.version >> 16),
                                    static_cast<float>(member.version & 0xffff), member.interface ? 1.0F : 0.0F};
  for (std::size_t i = 0; i < 4; ++i) {
    floats[4 + i] = static_cast<float>(member.gpu >> (16 * i) & 0xffff);
    floats[8 + i] = static_cast<float>(member.loopback >> (16 * i) & 0xffff);
  }
  return floats;
}

NcclMember unpack(const float* from) {
  NcclMember member{.device = static_cast<int>(from[0]),
                    .version = (static_cast<int>(from[1]) << 16) + static_cast<int>(from[2]),
                    .interface = from[3] != 0};
  for (std::size_t i = 0; i < 4; ++i) {
    member.gpu |= static_cast<std::uint64_t>(from[4 + i]) << (16 * i);
    member.loopback |= static_cast<std::uint64_t>(from[8 + i]) << (16 * i);
  }
  return member;
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
  const auto size = static_cast<std::size_t>(host.view().size);
  const std::array<float, kFloats> floats = pack(own);
  std::vector<float> all(size * kFloats);
  TROUPE_TRY(host.all_gather(floats, all, {.name = "nccl members"})->wait());
  std::vector<NcclMember> members;
  for (std::size_t rank = 0; rank < size; ++rank) members.push_back(unpack(all.data() + rank * kFloats));
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
