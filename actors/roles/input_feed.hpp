#pragma once
// Gives a trainer its steps from data that the replica brings along (Replica::input_fn), such as a data set.
#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/replica_model.hpp>

namespace troupe::actors {

/// No ports. An input that has nothing yet is asked again after kInputPatience.
FeedSpec input_feed(MakeReplica make);

}  // namespace troupe::actors
