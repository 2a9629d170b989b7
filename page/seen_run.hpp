#pragma once
// A run as its chief sees it (actors/control/run_status.hpp), read back from its JSON: an answer over the operator's
// link, or the status.json of a run directory, which may come from anybody. Used by all that page/ shows.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::page {

struct SeenPort {
  std::string name;
  bool inlet = false;
  std::int64_t depth = 0;
  double frames_per_s = 0, bytes_per_s = 0, waited_s = 0;
};

struct SeenInstance {
  std::string name, role, node, state, error;
  std::int64_t incarnation = 0, restarts = 0, restart_limit = 0;
  bool told = false;          ///< it has said what follows
  double idle_s = -1;         ///< < 0: at work
  std::string waits_for;      ///< the port that holds it up
  std::string why;            ///< its own words
  std::int64_t version = -1;  ///< -1: it has none
  std::int64_t staleness = -1;
  std::vector<SeenPort> ports;
};

struct SeenChannel {
  std::string from, from_port, to, to_port, kind;
  std::int64_t capacity = 0;
};

struct SeenGroup {
  struct Missing {
    std::string name, state;
  };
  std::string name, epoch, hang, broke;
  std::int64_t seats = 0;
  std::vector<std::string> members;
  std::vector<Missing> missing;
};

struct SeenNode {
  std::string name, state;
  std::int64_t incarnation = 0;
  double silent_s = 0;
};

struct SeenRun {
  std::string run;
  std::uint64_t term = 0, last_cut = 0;
  double seconds = 0;         ///< since its chief began
  double written_unix_s = 0;  ///< when the file was written; 0: it is an answer
  std::vector<SeenNode> nodes;
  std::vector<SeenInstance> instances;
  std::vector<SeenChannel> channels;  ///< none: the chief is of a release that did not say
  std::vector<SeenGroup> groups;
  std::vector<std::string> waits, trouble;
};

/// Texts come out printable. Errors: kCorrupt: no such JSON, or more than 16 MiB of it.
Result<SeenRun> read_status(std::string_view text);

/// The number of an instance within its role: 3 of "actor-3", 0 of "actor".
std::int64_t index_of(const SeenInstance& instance);

}  // namespace troupe::page
