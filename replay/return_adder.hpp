#pragma once
// Items with the return that their environment had got when they were complete: what a learner scales rewards by
// (FlashSAC). Another adder makes the items; this one puts a column behind its own.
#include <troupe/replay/adder.hpp>

namespace troupe::replay {

/// The column "return", float32[]: G_t = discount * G_{t-1} + r_t over an environment's steps, of which nothing goes on
/// behind the last step of an episode: there G_t = r_t, as FlashSAC's reference has it. Errors of the making: those of
/// `items`; kInvalidArgument when they have such a column already.
MakeAdder with_return(MakeAdder items, double discount);

}  // namespace troupe::replay
