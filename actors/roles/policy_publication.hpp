#pragma once
// Versions of a policy for everyone who acts, by way of the parameter store: versions only grow, whatever happens to
// the process that gives them out, since actors know those that they have seen.
#include <cstdint>
#include <string>

#include <troupe/actors/roles/publication.hpp>

namespace troupe::actors {

struct PolicyPublicationOptions {
  std::string group;        ///< the parameters that actors act with
  std::int64_t period = 1;  ///< steps between two publications
};

/// Ports: out updates (latest, Parameters); in refused (latest, ParametersVersion), behind which its versions go on
/// then. The first parameters are published before the first step, since nobody can act without them. A version is
/// published when the parameter store has taken the one before, else a later one is.
/// Of a GPU they are copied while the next launch runs, and sent when they are there.
///
/// A trainer that was restarted from a checkpoint repeats steps, but not versions: those that it had published since
/// are known to actors. So it goes on behind the last version that it had reserved in its own folder.
PublicationSpec policy_publication(PolicyPublicationOptions options);

}  // namespace troupe::actors
