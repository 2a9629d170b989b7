#pragma once
// A trainer's steps from rows that are kept in the memory of its own device behind a PJRT plug-in (a TPU, or any other
// that has one): each row goes there once, when it has come, and a launch sends the numbers of those that were drawn,
// instead of the rows of every batch. The table itself is the host's, as elsewhere: it draws, keeps priorities, which
// come back when a launch has ended, and has a copy of the rows for checkpoints and the journal.
#include <troupe/actors/roles/held_replay_feed.hpp>

namespace troupe::actors {

/// Items leave in the order in which they came, so that an item's place on the device follows from its key. Errors:
/// those of ReplayIntake::make(); Program::keep_rows()'s, of trainers elsewhere or a device without room for the rows.
FeedSpec kept_replay_feed(HeldReplayFeedOptions options);

}  // namespace troupe::actors
