#pragma once
// The operator's side of a run over nodes: `troupe status` and `troupe stop` ask its chief. Whoever can read the
// authority in the run directory is an operator; a certificate is made for each question and forgotten.
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/control.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/transport/address.hpp>

namespace troupe::apps {

/// Where the run's chief listens, or last did. Errors: kNotFound when the run is not one over nodes; kUnavailable when
/// its chief has not begun; kCorrupt.
Result<transport::Address> chief_of(const RunDirectory& run);

/// Asks the chief of the run recorded in `run` (kAskStatus or kEnd) and returns its answer. Errors: kNotFound when the
/// run is not one over nodes, kUnavailable when no chief answers, kDeadlineExceeded, those of the authority.
Result<messages::Control> ask(const RunDirectory& run, const messages::Control& question, Duration timeout);

}  // namespace troupe::apps
