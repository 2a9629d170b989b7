#pragma once
// Versions of a policy for everyone who acts, by way of the parameter store: versions only grow, whatever happens to
// the process that gives them out, since actors know those that they have seen.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/roles/publication.hpp>

namespace troupe::actors {

struct PolicyPublicationOptions {
  std::vector<std::string> groups;  ///< the parameter groups that actors act with
  std::int64_t period = 1;          ///< steps between two publications
};

/// The version that a parameter store has reached, out of its message to whom it has refused an update. Errors: those of
/// read_parameters_version(); kOutOfRange for more versions than any run has.
Result<std::int64_t> read_reached(const messages::Frame& refusal);

/// Ports: out updates (latest, Parameters); in refused (latest, ParametersVersion), which says where its versions must
/// go on. The first parameters are published before the first step, since nobody can act without them. A version is
/// published when the parameter store has taken the one before; else a later version is published instead. Parameters
/// on a GPU are copied while the next launch runs, and sent when the copy is there.
///
/// A trainer that was restarted from a checkpoint repeats steps, but not versions, since actors know those that it had
/// published after the checkpoint. So it goes on behind the last version that it had reserved in its own folder.
PublicationSpec policy_publication(PolicyPublicationOptions options);

}  // namespace troupe::actors
