#pragma once
// A trainer's steps from the data that its replica brings along (Replica::input_fn): a data set, say.
#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/replica_model.hpp>

namespace troupe::actors {

/// No ports. An input that has nothing yet is asked again after kInputPatience.
FeedSpec input_feed(MakeReplica make);

}  // namespace troupe::actors
