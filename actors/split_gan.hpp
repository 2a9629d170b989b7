#pragma once
// A GAN whose two sides are roles of their own (replicator "split_gan"), each with its own number of replicas, its own
// all-reduce group and its own pace:
//
//   NAME x count --fakes (stream)--------------> NAME-discriminator x discriminators
//                --versions (latest)------------>
//                <-------parameters (latest)----
//                --parameters (latest)----------> NAME-evaluator
//
// NAME holds the generator: each step makes a batch of images for the discriminators, and every n_dis-th one updates
// the generator against the newest discriminator that has arrived. A discriminator takes as many real images, from the
// data, as fakes from the channel, and updates in each step.
//
// What holds the two together is the channel: a generator without credit waits, so it is never further ahead than what
// the channel holds, and the discriminators make n_dis updates for one of the generator, whichever side is faster. The
// channel is so short that no fake comes to be more than max_staleness generator versions old on its way. One that is
// nevertheless (it waited for a discriminator that had died, say) is dropped and counted, and another takes its place.
// The generators count the steps: when they are done, so is the group, and what the discriminators lack to as many
// steps is what was dropped or is still on its way.
//
// Faults: the roles are groups like any other (actors/replica_actor.hpp). A side of which no member lives comes back
// from the last cut; the other waits for it, the generators for credit, the discriminators for fakes. Neither counts on
// versions that only grow.
#include <cstdint>

#include <troupe/actors/replica_model.hpp>
#include <troupe/actors/replica_options.hpp>
#include <troupe/actors/topology.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

/// Fakes under way or waiting between each generator and each discriminator, in steps of the generator.
/// Errors: kInvalidArgument, naming the option, when max_staleness leaves room for none.
Result<std::int64_t> fakes_capacity(const ReplicaGroupOptions& group, std::int64_t n_dis);

/// Appends the generators' and the discriminators' role and the channels between them. Errors: those of
/// fakes_capacity(); kInvalidArgument when the model is no GAN.
Status add_split_gan(Topology& topology, const ReplicaGroupOptions& group, const ReplicaModel& model);

}  // namespace troupe::actors
