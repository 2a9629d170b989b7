#pragma once
// The writing end of tables of shared steps (actors/roles/sequence_replay): a role that acts has one for each of its
// environments, puts steps in and says which items to make of them; what has gathered is sent when there is room.
// Reverb's TrajectoryWriter (reverb/cc/trajectory_writer.h).
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/steps.hpp>

namespace troupe::actors {

class SequenceWriter {
 public:
  /// step: columns of a time step. max_steps > 0: how far back items reach (num_keep_alive_refs). number: unlike that
  /// of any other writer of the run, also of those of earlier incarnations: drawn from Rng(identity.seed, incarnation).
  SequenceWriter(Signature step, std::int64_t max_steps, std::uint64_t number);

  const Signature& step() const { return step_; }

  /// Consecutive steps, [rows, ...] by column. Errors: kShapeMismatch, and nothing has changed.
  Status append(const BatchView& steps);
  /// Of the last `steps` steps of the episode, in whichever messages they go. Errors: kInvalidArgument (no table, more
  /// steps than reach(), a priority), and nothing has changed.
  Status create_item(std::string table, std::int64_t steps, double priority = 1);
  /// No item reaches over it.
  void end_episode();
  /// Steps that an item may have now.
  std::int64_t reach() const;
  /// Nothing comes after the next flush().
  void close() { last_ = true; }

  /// Sends what has gathered over the port `steps` of a role, all of a writer to the same consumer. False: no room, and
  /// it stays; the caller should gather no more then. True also when there was nothing. Errors: the pool's.
  Result<bool> flush(RoleContext& context, std::string_view port = "steps");

 private:
  const Signature step_;
  const std::int64_t max_steps_;
  const std::uint64_t number_;
  std::vector<std::vector<std::byte>> columns_;
  std::int64_t rows_ = 0, episode_ = 0;
  std::vector<messages::StepsItem> items_;
  std::vector<std::int64_t> ends_;
  std::uint64_t sequence_ = 0;
  bool last_ = false;
};

}  // namespace troupe::actors
