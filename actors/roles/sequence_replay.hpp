#pragma once
// Several tables of a run whose items are sequences of time steps that they share: a shell around
// replay::SequenceTables, for topologies of a user's own. Whoever acts sends steps and says which items to make of them
// (actors/roles/sequence_writer.hpp); whoever learns asks a table for batches. What Reverb's server is to a program.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/sample_requests.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/steps.hpp>
#include <troupe/replay/sequence_tables.hpp>

namespace troupe::actors {

/// Ports: in steps (stream, Steps), samples (request, SampleRequest, answered by Batch), and where a table goes by
/// priorities also priorities (stream, Priorities; always drained). A producer whose item the limiter of its table does
/// not admit yet waits, and no other. Requests of a table are answered in their order, each as soon as its limiter
/// admits all its rows, until its time is over. Everything goes into checkpoints, writers and their steps included. A
/// writer of which messages were lost, by a restart of this role, goes on with what comes; items that reach back over
/// the gap are dropped and counted.
class SequenceReplay final : public Role {
 public:
  static std::vector<Port> inlets(const replay::SequenceOptions& options);
  /// options.seed and the tables' are replaced by ones from the role's identity. Errors: those of
  /// SequenceTables::make().
  static Result<std::unique_ptr<Role>> make(replay::SequenceOptions options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  /// How far the message is done that a producer waits with.
  struct Lane {
    std::uint64_t writer = 0, sequence = 0;
    std::int64_t rows = 0;
    std::size_t items = 0, ends = 0;
    Status wrong;         ///< the first thing that could not be done
    std::string blocked;  ///< what the next item waits for
  };
  struct Writer {
    replay::SequenceTables::Writer number = 0;
    std::uint64_t next = 0;       ///< sequence of the message that comes
    std::uint64_t last_used = 0;  ///< by count of messages
  };
  SequenceReplay(std::unique_ptr<replay::SequenceTables> tables, bool prioritised);

  /// Takes up to one message of each producer. True when anything was done.
  bool take_steps(RoleContext& context);
  bool take_from(RoleContext& context, std::size_t producer);
  /// The message's writer; null: the message has been here before.
  Writer* writer_of(const messages::StepsInfo& info);
  void begin_anew(Writer& writer, std::int64_t max_steps);
  /// Goes on with a message until its end (true) or until an item has to wait.
  bool go_on(const messages::StepsView& steps, Writer& writer, Lane& lane);
  bool insert(const messages::StepsItem& item, Writer& writer, Lane& lane);
  void take_priorities(RoleContext& context);
  /// How many of its keys were unknown.
  Result<std::int64_t> apply(const messages::PriorityUpdate& update);
  void take_requests(RoleContext& context);
  Result<std::size_t> table(const std::string& name) const;
  Result<bool> serve(RoleContext& context);
  Result<Frame> draw(RoleContext& context, std::size_t table, std::int64_t rows);

  const bool prioritised_;  ///< there is a port for them
  std::unique_ptr<replay::SequenceTables> tables_;
  std::map<std::string, std::size_t, std::less<>> numbers_;  ///< of tables
  std::map<std::size_t, Lane> lanes_;                        ///< by producer, of messages that are not done
  std::map<std::uint64_t, Writer> writers_;                  ///< by their own number
  std::vector<AskedBatches> asked_;                          ///< by table
  std::uint64_t batches_ = 0, messages_ = 0;
  std::int64_t lost_items_ = 0, gaps_ = 0, duplicates_ = 0, unknown_priorities_ = 0;
};

}  // namespace troupe::actors
