#pragma once
// The launcher starts the processes of a run, one a node, here or on other hosts by ssh, and looks after them until the
// run has ended: `troupe train --processes` and `troupe up` are this. It is not a node itself and takes no part in the
// run: what it knows is who has died. Nothing that it started outlives it, whatever happens to it: children here are
// killed by the kernel, those on other hosts by their tether (apps/cluster/tether.hpp).
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

struct NodeCommand {
  std::string name;  ///< of the node: stands before its lines
  std::vector<std::string> command;
  std::string ssh;                  ///< destination of ssh or of the relay; empty: this host
  std::vector<std::string> tether;  ///< by ssh: the command that runs it there, see tether.hpp
  /// What the process finds in its standard input at its start number `start` (0, 1, ...), e.g. a secret that must not
  /// be an argument. An error counts as a failed start. Not set: empty input.
  std::function<Result<std::string>(int start)> input;
};

/// What a line of the chief's says to the launcher.
enum class ChiefLine {
  kOther,    ///< nothing: it is printed
  kListens,  ///< the chief can be joined now
  kMoved,    ///< the same, but at another place than before: nodes that were started look for it in vain
};

struct LaunchOptions {
  /// The program with its own options; the destination, "--" and the command for a shell follow. ssh, or a relay that
  /// does the same with places that are no hosts of ssh's.
  std::vector<std::string> ssh = {"ssh", "-T",
                                  "-o",  "BatchMode=yes",
                                  "-o",  "ConnectTimeout=10",
                                  "-o",  "ServerAliveInterval=2",
                                  "-o",  "ServerAliveCountMax=3"};
  int output = STDOUT_FILENO;
  /// A node that ends in any other way than by exit code 0 is started again, after first_backoff, doubled for each
  /// further restart within the window (at once when it was fenced: exit code 75).
  int restarts_max = 5;  ///< of one node within the window; then it stays down
  Duration restart_window = std::chrono::seconds(60);
  Duration first_backoff = std::chrono::milliseconds(100);
  Duration max_backoff = std::chrono::seconds(5);
  /// A host that ssh does not reach (its exit code 255) may be booting: that costs no restart, and after max_backoff it
  /// is tried again, until it has been gone for so long. Of a place that is being restarted (a relay's exit code
  /// kPlaceRestarting) the same holds, but its relay knows when it is back, and is asked after restarting_backoff.
  Duration unreachable_max = std::chrono::minutes(10);
  Duration restarting_backoff = std::chrono::milliseconds(500);
  /// Set where nobody knows the chief's address before it listens: hears each of the chief's lines. Other nodes are
  /// started once it has returned kListens, and are ended and started anew when it returns kMoved.
  std::function<ChiefLine(std::string_view line)> chief_line;
  /// Whether the run may go on without these nodes, which stay down; asked each time that one more does. Not set: it
  /// may until none but the chief's is left.
  std::function<bool(const std::vector<std::string>& down)> goes_on_without;
  /// A run that is to stop has ended, or its chief has said something since, within so long; else the chief is killed.
  /// A checkpoint of many nodes, or on a slow disk, takes what it takes, and the chief says how far it is.
  Duration stop_grace = std::chrono::seconds(60);
  Duration stop_most = std::chrono::minutes(15);  ///< and that is all of it
  Duration end_grace = std::chrono::seconds(10);  ///< a node's time to end when the run has ended; then it is killed
};

/// Exit codes of a node that the launcher acts on.
enum NodeExit {
  kNodeDone = 0,     ///< of the chief: the run is complete. Of another: nothing is left to do for it, it stays down.
  kNodeData = 65,    ///< no checkpoint that it could go on from is whole, or a journal is damaged: it stays down
  kNodeOver = 76,    ///< of the chief: the run has ended with the error that it has printed, and cannot be led again
  kNodeFenced = 75,  ///< it was declared dead and must not write: it is started again at once
  kPlaceRestarting = 254,  ///< of a relay: whoever owns the place is starting it again
  kUnreachable = 255,      ///< of ssh or a relay: the place was not reached, or was lost
};

/// Starts the commands, the first of which is the chief's, and returns when all have ended: the chief's exit code
/// (1 for kNodeOver; 128 + n if signal n ended it), that of a node without which the run could not go on, or 130 / 143
/// when a second SIGINT / SIGTERM killed everything (StopRequest). Every line that a node writes appears on `output` as
/// "<name> | <line>"; so do, under the name "launcher", a line for each restart and why, and one for a node that stays
/// down: after restarts_max, or at once when starting it again is pointless (the run has ended, its configuration or
/// command line is wrong, or there is no such program). The chief's staying down ends the run, and so does that of
/// nodes without which it cannot go on, after a last checkpoint. The first SIGINT, SIGTERM or SIGHUP asks the chief to
/// stop (SIGTERM): it makes its checkpoint and ends; then the others are ended. Blocks the calling thread; takes these
/// signals and SIGCHLD for itself meanwhile, so it is to be called before other threads are started. Errors:
/// kInvalidArgument (no commands), kIo: no pipes or processes to be had, and nothing runs; or everything went well but
/// the lines could not be written, as the disk is full.
Result<int> launch(std::vector<NodeCommand> commands, LaunchOptions options);

}  // namespace troupe::apps
