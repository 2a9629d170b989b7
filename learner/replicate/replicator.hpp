#pragma once
// How replicas are run. A replicator builds each replica's graph through the replica API, compiles it, and then feeds
// and runs it step by step; the learner actor drives one. OneDevice runs a single replica on the calling thread, or is
// one member of a group that trains together through a Communicator.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

/// Steps are taken one by one with step(), or as launches that a GPU takes without the host (Program says how):
///
///   stage(), ... begin()   the launch: as many steps as are staged; on a GPU begin() returns while it runs
///   stage(), ...           the inputs of the next launch go over meanwhile
///   finish()               waits for the launch: metrics and outputs of each of its steps are program()'s then
///
/// One thread at a time.
class Replicator {
 public:
  virtual ~Replicator() = default;

  /// One synchronous step of all replicas: stage(), unless something is staged already, begin() and finish(). Errors:
  /// theirs.
  Status step();

  /// How many steps a launch can take: more than one only on a GPU, see Program.
  virtual int steps_per_launch() const { return 1; }
  /// Takes the next batch of every replica's input for one more step of the next launch. Errors: kUnavailable when an
  /// input pipeline had nothing (nothing happened, and what the others gave is kept; try again); kOutOfRange when the
  /// inputs have ended; kInvalidArgument when steps_per_launch() are staged already; those of the pipelines.
  virtual Status stage() = 0;
  /// Steps that wait for begin(). After an error of begin() that another epoch of the group mends they still do.
  virtual int staged() const = 0;
  /// Begins the staged steps; a processor takes its one here. Blocks for as long as that takes, and for the group at
  /// most as long as its collectives' timeouts. Errors: those of Program::run(); after one that no epoch mends, the
  /// replicas must be restored from a checkpoint.
  virtual Status begin() = 0;
  /// The same with a feed attached to program(), which fills the inputs of `steps` steps on the GPU. A group of another
  /// size has another program, without a feed. Errors: kInvalidArgument when replicas need their own inputs.
  virtual Status begin(int steps);
  /// Whether finish() would return at once.
  virtual bool finished() { return true; }
  /// Ends the launch. Errors: kInvalidArgument when none is under way; kInternal after kMaxSkippedInARow, on all
  /// replicas alike; the GPU's.
  virtual Status finish() = 0;

  /// The compiled step of the first replica on this process: parameters, metrics, outputs, step count. Replicas agree
  /// on parameters bit for bit, since they start equal and apply the same reduced gradients.
  virtual Program& program() = 0;
  /// The value of Graph::output(name) in step `step` of the last launch: the rows of all replicas on this process, one
  /// replica's behind the other's. Empty for an unknown name or step. Valid until the next begin().
  virtual std::span<const float> output(std::string_view name, int step = 0) { return program().output(name, step); }
  /// The batch that was staged last on this process, of the first replica; borrowed until the next stage() and empty
  /// before the first: for save_batch() when a step fails.
  virtual BatchView batch() const { return {}; }
  /// The input pipeline of the first replica on this process.
  virtual const InputPipeline& input() const = 0;
};

/// So many steps in a row without a finite gradient are a run that is broken, not one bad batch.
inline constexpr std::int64_t kMaxSkippedInARow = 10;

/// kInternal, naming step and count, once program.skipped_in_a_row_max() has reached kMaxSkippedInARow. Replicas of a
/// group skip the same steps, so they all say so at the same one. The last checkpoint is then what is good.
Status check_skipped(const Program& program);

/// Of a step whose input is there: kUnavailable, by which Replicator::stage() says that there is none, becomes
/// kInternal, since of a collective it is a mistake in the step.
Status but_not_unavailable(Status step);

/// Writes a batch as a safetensors file, column by column, for people who look for what was wrong with it.
/// Errors: kIo naming the path; kInvalidArgument for a batch without a signature.
Status save_batch(const BatchView& batch, const std::string& path);

struct OneDeviceOptions {
  std::int64_t batch = 0;  ///< rows that this replica takes at each step
  CompileOptions compile;  ///< the seed must be the same on all members of a group
  /// Null: one replica on its own. Otherwise this is replica view().rank of view().size; outlives the replicator.
  collectives::Communicator* communicator = nullptr;
  std::int64_t global_batch = 0;  ///< with a communicator: rows over all members
  std::int64_t first_step = 0;    ///< InputContext::first_step
};

class OneDevice final : public Replicator {
 public:
  /// Errors: what input_fn, the graph or its compilation say.
  static Result<std::unique_ptr<OneDevice>> make(Replica& replica, const OneDeviceOptions& options);

  int steps_per_launch() const override { return program_->steps_per_launch(); }
  Status stage() override;
  int staged() const override { return program_->staged(); }
  Status begin() override { return but_not_unavailable(program_->begin()); }
  Status begin(int steps) override { return program_->begin(steps); }
  bool finished() override { return program_->finished(); }
  Status finish() override;
  Program& program() override { return *program_; }
  BatchView batch() const override { return last_; }
  const InputPipeline& input() const override { return *input_; }

 private:
  OneDevice(std::unique_ptr<InputPipeline> input, std::unique_ptr<Program> program, std::int64_t batch);
  std::unique_ptr<InputPipeline> input_;
  std::unique_ptr<Program> program_;
  std::int64_t batch_;
  BatchView last_;
};

}  // namespace troupe::learner
