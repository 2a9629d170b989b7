// What follows from a replica group's options alone, of replica_topology.hpp and split_gan.hpp: for those who check
// configurations or place roles, and link nothing of what makes them.
#include <fmt/format.h>

#include <troupe/actors/roles/replica_topology.hpp>
#include <troupe/actors/roles/split_gan.hpp>

namespace troupe::actors {

std::string evaluator_name(const ReplicaGroupOptions& group) { return group.name + "-evaluator"; }
std::string parameter_server_name(const ReplicaGroupOptions& group) { return group.name + "-ps"; }
std::string discriminator_name(const ReplicaGroupOptions& group) { return group.name + "-discriminator"; }

Status check_staleness(const ReplicaGroupOptions& group, std::int64_t n_dis) {
  // A step of the generator waits in the channel while another one is used, and its members may be one apart.
  constexpr std::int64_t kSteps = 3;
  if (const std::int64_t least = (kSteps + n_dis - 1) / n_dis; group.max_staleness < least) {
    return Error{Code::kInvalidArgument,
                 fmt::format("replicas.{}.max_staleness: got {} with n_dis {}, expected at least {}", group.name,
                             group.max_staleness, n_dis, least)};
  }
  return {};
}

}  // namespace troupe::actors
