#pragma once
// A topology is data: roles and the typed, bounded channels between them. It is checked as a whole before anything is
// spawned (actors/control/runtime.hpp does that). With actors/runtime/protocol.hpp this page is the whole system in
// outline; run/agent_topology.cpp is the one that ships, and examples/hello_topology.cpp the smallest.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/messages/message_type.hpp>

namespace troupe::actors {

enum class ChannelKind {
  kStream,   ///< lossless FIFO; a producer without credit waits (back-pressure)
  kLatest,   ///< the newest value wins; a producer never waits
  kRequest,  ///< bounded calls with a deadline and an answer
};
std::string_view to_string(ChannelKind kind);

/// One end that a role offers. `type` names what it carries: the message struct of messages/*.capnp, e.g. "Trajectory",
/// or a type in Topology::messages.
struct Port {
  std::string name;
  std::string type;  ///< of requests on a channel of calls
  ChannelKind kind = ChannelKind::kStream;
  /// Inlets only: the role takes frames here even while all its outlets are full. Such an inlet breaks a cycle of
  /// lossless channels, which otherwise could deadlock and is refused.
  bool always_drained = false;
  /// For kRequest: the type of the answers; empty: that of the requests.
  std::string answer = {};

  const std::string& answer_type() const { return answer.empty() ? type : answer; }
};

/// What a restarted instance starts from.
enum class RestartFrom {
  kNothing,  ///< afresh: what it needs comes over its channels, or is in its own folder
  kLastCut,  ///< its state in the last checkpoint, if there is one
};

/// What follows when an instance fails: its step returns an error, it throws, or its node dies. After Code::kLost it is
/// only run again by another process of its node, and by few of those without a new cut (ChiefActor::went_down).
struct RestartPolicy {
  int max_restarts = 0;  ///< of one instance within `window`; beyond, see quarantine
  Duration window = std::chrono::seconds(60);
  RestartFrom from = RestartFrom::kNothing;
  /// An instance that fails too often is given up while others of its role live; else the whole run fails.
  bool quarantine = false;
  /// An error of this code ends the run at once, as its last checkpoint has it: another try would only repeat it.
  std::optional<Code> ends_run = std::nullopt;
  Duration first_backoff = std::chrono::milliseconds(100);
  Duration max_backoff = std::chrono::seconds(5);  ///< doubles from first_backoff up to this
};

enum class Execution {
  kShared,  ///< on the scheduler's pool: short slices
  kThread,  ///< on a thread of its own: long slices (environment, learner, files)
};

struct RoleSpec {
  std::string name;
  std::int64_t count = 1;     ///< 0 only of one that is elastic
  std::vector<Port> inlets;   ///< consuming ends and, of kind kRequest, serving ends
  std::vector<Port> outlets;  ///< producing ends and, of kind kRequest, calling ends
  RoleFactory make;
  Execution execution = Execution::kShared;
  /// In a run over nodes its threads have a smaller share of processors that are too few for them
  /// (core/thread_priority.hpp), so that many of them cannot hold up what leads the run and carries its data. Of
  /// Execution::kThread.
  bool goes_behind = false;
  RestartPolicy restart;
  /// In a run over nodes, where whatever dies is started again, it goes on from the last cut (RestartFrom::kLastCut).
  bool kept_over_nodes = false;
  /// Nodes that nobody has planned may join a run and host further instances, with indices from `count` on. They come
  /// and go: nothing waits for them, and no checkpoint needs them.
  bool elastic = false;
  /// The run is complete when, in each of its parts that has roles with this mark, every instance of one of them is
  /// done.
  bool completes_run = false;
  /// What this role is for, when a topology does several things at once: a replica group's name, say.
  std::string part = {};
  /// Its instances train together through collectives: each has a seat in their group (RoleIdentity::group). Needs
  /// Execution::kThread when there are several, because ranks wait for each other inside of a step.
  bool group = false;
  /// Of a group: sums go in one order whatever its size, also where another would be faster (replicas whose results
  /// must not depend on how many they are).
  bool ordered_sums = false;
};

/// An edge from every instance of one role to every instance of another; its kind is that of both ports.
struct ChannelSpec {
  std::string from_role, from_port;
  std::string to_role, to_port;
  /// stream: frames under way or waiting per pair of instances; request: calls under way per caller; latest: unused.
  std::int64_t capacity = 1;

  std::string name() const { return from_role + "." + from_port + " -> " + to_role + "." + to_port; }
};

/// An inlet, by role and port.
struct PortName {
  std::string role;
  std::string port;
};

struct Topology {
  std::vector<RoleSpec> roles;
  std::vector<ChannelSpec> channels;
  /// Where every instance sends its Report once a period, without a channel of its own: a stream inlet of type Metrics
  /// of a role with one instance. At most one report of an instance is under way; a newer one replaces it. Nothing is
  /// reported when it is not set.
  std::optional<PortName> reports;
  /// Types that ports may name besides those that ship. Over nodes nothing else is let in; within one process frames
  /// pass by pointer, and only their size is looked at.
  std::vector<messages::MessageType> messages = {};

  const RoleSpec* find(std::string_view role) const;
  /// Null for a type that ships, and for one that nobody has registered.
  const messages::MessageType* find_message(std::string_view type) const;
};

/// Something that is wrong with a topology, and what it is about: a role by its name, a channel by its number in
/// Topology::channels, or both; neither: all of it.
struct TopologyMistake {
  std::string what;  ///< naming role and channel
  std::string role = {};
  std::optional<std::size_t> channel = {};
};

/// All that is wrong: duplicate or empty names, counts and capacities below 1, unknown roles and ports, types or kinds
/// that differ, ports without a channel or with two, cycles of lossless channels, no role that completes the run.
std::vector<TopologyMistake> mistakes(const Topology& topology);

/// mistakes() in one error, a line each. Errors: kInvalidArgument.
Status check(const Topology& topology);

/// That all ports have types that may travel between nodes: of ours those that channels carry, else those in
/// Topology::messages. Errors: kInvalidArgument, a line for each port that has not.
Status check_message_types(const Topology& topology);

}  // namespace troupe::actors
