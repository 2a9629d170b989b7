#pragma once
// A GAN whose two sides are roles of their own (replicator "split_gan"), each with its own number of replicas, its own
// all-reduce group and its own pace:
//
//   NAME x count --fakes (stream)--------------> NAME-discriminator x discriminators
//                --versions (latest)------------>
//                <-------parameters (latest)----
//                --parameters (latest)----------> NAME-evaluator
//
// NAME holds the generator: each step makes a batch of images, of which each living discriminator gets its share, and
// every n_dis-th one updates the generator against the newest discriminator that has arrived. A discriminator takes as
// many real images, from the data, as fakes from the channel, and updates in each step.
//
// What holds the two together is the channel: a generator makes the next images when the discriminators have taken
// those of its last step, while they are used, and else waits. So the discriminators make n_dis updates for one of the
// generator, whichever side is faster, and learn from images of a step or two ago. Delay is what such training suffers
// from most. An image that is more than max_staleness generator versions old (it waited for a discriminator that had
// died, say) is dropped and counted, and another takes its place.
// The generators count the steps: the group is done when they are. The discriminators may have made fewer steps by what
// was dropped or is still on its way.
//
// Faults: the roles are groups like any other (actors/roles/trainer.hpp). A side without a living member comes back
// from the last cut. The other side waits for it, generators for credit and discriminators for fakes. Neither side
// relies on versions that only grow.
#include <cstdint>
#include <functional>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Errors: kInvalidArgument, naming the option, when max_staleness would drop images in the ordinary course.
Status check_staleness(const ReplicaGroupOptions& group, std::int64_t n_dis);

/// Appends the generators' and the discriminators' role and the channels between them. Errors: those of
/// check_staleness(); kInvalidArgument when the model is no GAN.
/// begin_with: TrainerOptions::begin_with of both sides.
Status add_split_gan(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model,
                     const std::function<Status(learner::Program&)>& begin_with = nullptr);

}  // namespace troupe::actors
