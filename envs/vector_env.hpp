#pragma once
// Many instances of one environment, stepped together on a few threads: what env actors and the evaluator hold. Results
// do not depend on the number of threads: every instance has its own random stream and writes to its own row.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {

struct VectorEnvOptions {
  MakeEnvironment make;  ///< called `count` times
  int count = 1;         ///< instances, 1..65536
  int threads = 1;       ///< that step, the caller's included; 1..256, and no more than `count` are started
  /// Instance i has the seed derive_seed(seed, "vector_env", i).
  std::uint64_t seed = 0;
};

/// What advance() does with an instance.
enum class Move : std::uint8_t { kRest, kReset, kStep };

/// Not thread-safe: one caller at a time. Its own threads work only during advance(); between calls they watch for work
/// for some 20 us and then sleep.
class VectorEnv {
 public:
  /// Errors: kInvalidArgument on a count or number of threads out of range, or when instances differ in their columns;
  /// those of options.make().
  static Result<std::unique_ptr<VectorEnv>> make(const VectorEnvOptions& options);
  /// The same of environments that are made already: at least one.
  static Result<std::unique_ptr<VectorEnv>> make(std::vector<std::unique_ptr<Environment>> environments, int threads);
  ~VectorEnv();
  VectorEnv(const VectorEnv&) = delete;
  VectorEnv& operator=(const VectorEnv&) = delete;

  const EnvSpec& spec() const { return environments_.front()->spec(); }
  std::size_t count() const { return environments_.size(); }

  /// Resets or steps each instance as moves[i] says. actions: [count, spec().action.tensor.bytes()], read where
  /// moves[i] is kStep. Every instance fails by itself: result(i) says how, and the others are not disturbed.
  /// Instances that rest keep their observation and their result.
  void advance(std::span<const Move> moves, std::span<const std::byte> actions);

  /// What the last move of an instance gave: its time step, or the error of Environment::reset() or step().
  const Result<TimeStep>& result(std::size_t index) const { return results_[index]; }
  /// [count, row_bytes(spec().observation)], of the last moves; zero before the first.
  std::span<const std::byte> observations() const { return observations_; }
  /// Row `index` of observations().
  std::span<const std::byte> observation(std::size_t index) const;
  std::span<std::byte> observation(std::size_t index);  ///< to be set together with the instance's state

  /// One instance, e.g. to save its state or draw it. Stepping it here leaves result() behind.
  Environment& environment(std::size_t index) { return *environments_[index]; }
  const Environment& environment(std::size_t index) const { return *environments_[index]; }

 private:
  VectorEnv(std::vector<std::unique_ptr<Environment>> environments, int threads);

  /// Takes instances until none is left.
  void work();
  void move(std::size_t index);
  void worker_loop();

  std::vector<std::unique_ptr<Environment>> environments_;
  std::size_t row_bytes_;
  std::size_t action_bytes_;
  std::vector<std::byte> observations_;
  std::vector<Result<TimeStep>> results_;

  // The present round. A round ends when all instances are done, not when all threads are: a worker that the system has
  // not let run holds nobody up, and joins whatever round it finds.
  // Moves and actions are written before next_index_ goes back to 0 and read after taking an index.
  std::span<const Move> moves_;
  std::span<const std::byte> actions_;
  std::atomic<std::size_t> next_index_{0};    // the next instance to take; none is left from count() on
  std::atomic<std::uint32_t> unfinished_{0};  // instances of this round; the caller sleeps on it
  std::atomic<std::uint32_t> round_{0};       // counts up; workers sleep on it
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace troupe::envs
