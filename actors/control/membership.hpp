#pragma once
// Who is in the run: the chief's book of nodes. Plain logic over times that are passed in, so that its rules can be
// tested one by one; the ChiefActor asks it and acts.
//
// A node is a name; a process that serves it is known by its birth (a random number) and gets an incarnation, one more
// than the process before it. Whoever was declared dead stays dead: if it wakes up it is fenced, since its successor
// may be at work already.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>

namespace troupe::actors {

struct MembershipOptions {
  /// The period in a run of few nodes; see Membership::heartbeat().
  Duration heartbeat = std::chrono::milliseconds(100);
  /// The least silence after which a node is dead: see Membership::dead_after().
  Duration dead_after = std::chrono::seconds(1);
  /// How long a node whose connection was closed has to come back: a living one does so at once.
  Duration back_within = std::chrono::milliseconds(120);
};

class Membership {
 public:
  enum class State { kExpected, kUp, kDead, kLeft };
  struct Node {
    std::string name;
    State state = State::kExpected;
    std::uint32_t incarnation = 0;  ///< of the dead: that of the process to come
    std::uint64_t birth = 0;
    Duration last_heard{};
    bool knows = false;               ///< the process has said something as this incarnation, so it has got our welcome
    Duration delay{};                 ///< how late its heartbeats were recently; see heard()
    Duration lost_at{-1};             ///< < 0: its connection stands
    std::vector<std::uint64_t> dead;  ///< births that were declared dead; the newest few
  };

  explicit Membership(MembershipOptions options) : options_(options) {}

  /// Adds a node that is part of the plan, with its incarnation in the journal of an earlier chief.
  void expect(const std::string& name, std::uint32_t incarnation);
  /// Adds a node that is in the journal but has no place any more. A process of it that was declared dead without
  /// hearing of that must not be taken for one that lives.
  void remember(const std::string& name, std::uint32_t incarnation);

  enum class Verdict {
    kNew,     ///< a new process: it has got the next incarnation
    kAgain,   ///< the process that we know has a new connection, or an earlier chief knew it
    kFenced,  ///< it was declared dead: it must exit
    kTaken,   ///< another process holds the name and lives (F20)
    kStale,   ///< said before the welcome that this process has answered since: it counts no more
  };
  /// `running` is the incarnation that the process says it has (0: none yet).
  Verdict join(const std::string& name, std::uint64_t birth, std::uint32_t running, Duration now);

  /// `running` is the incarnation as which the process spoke. When a heartbeat comes late, its delay is remembered for
  /// a while, and the node gets twice that delay more before it counts as dead: on a machine that is too busy everybody
  /// is late, and nobody is dead. `late` is by how much the node's own timers were late, as it says.
  void heard(const std::string& name, Duration now, std::uint32_t running = 0, Duration late = {});
  /// The connection to this process is gone, or there again. False when it is not the one that serves the name.
  bool lost(const std::string& name, std::uint64_t birth, Duration now);
  bool found(const std::string& name, std::uint64_t birth);
  void left(const std::string& name);

  struct Death {
    std::string name;
    double silent_s = 0;
    double limit_s = 0;   ///< what it had
    bool closed = false;  ///< its connection was closed: a crash, not silence
  };
  /// Returns who has died since the last call; called every heartbeat period. When this call itself comes late by more
  /// than a period, this node was held up, and nobody is blamed for the time in which it could not hear (F22).
  std::vector<Death> tick(Duration now);

  /// The period of the nodes' heartbeats: with many nodes it grows, so that the chief's work for them does not.
  Duration heartbeat() const;
  /// Silence after which a node whose heartbeats come in time is dead: never less than five of them.
  Duration dead_after() const;

  bool up(const std::string& name) const;
  std::size_t up_count() const { return up_; }
  const Node* find(const std::string& name) const;
  const std::map<std::string, Node>& nodes() const { return nodes_; }
  const MembershipOptions& options() const { return options_; }

 private:
  void set_state(Node& node, State state);

  MembershipOptions options_;
  std::map<std::string, Node> nodes_;
  std::size_t up_ = 0;
  Duration last_tick_{-1};
};

}  // namespace troupe::actors
