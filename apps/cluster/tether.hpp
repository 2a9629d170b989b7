#pragma once
// The far end of the launcher's ssh connection: runs a node's command for as long as the launcher is there, so that
// nothing is left on a host when the launcher, the connection or the launcher's host is gone. Hidden command of the
// program: `troupe tether COMMAND...`.
//
// Its standard input is the tether: "<bytes>\n", as many bytes of input for the command, and then a newline every
// second. The command is asked to end (SIGTERM) when the input ends or nothing came for 30 s, and is killed 10 s later.
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

inline constexpr Duration kTetherBeat = std::chrono::seconds(1);
inline constexpr std::string_view kTetherBeatText = "\n";
inline constexpr std::size_t kTetherInputBytesMax = 1 << 20;

/// What the launcher sends first.
std::string tether_input(std::string_view input);

struct TetherOptions {
  Duration silence_max = std::chrono::seconds(30);
  Duration grace = std::chrono::seconds(10);
};

/// Blocks until the command has ended; its exit code (128 + n if signal n ended it). SIGTERM, SIGINT and SIGHUP count
/// as the end of the tether. Errors: kInvalidArgument (no command, malformed or too much input), kDeadlineExceeded (no
/// input in silence_max), kIo.
Result<int> run_tethered(const std::vector<std::string>& command, const TetherOptions& options);

}  // namespace troupe::apps
