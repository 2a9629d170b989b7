#pragma once
// Many instances of one environment, stepped together on a few threads: what an env actor with more than one
// environment holds. Results do not depend on the number of threads: every instance has its own random stream, seeded
// from its index, and writes to its own row.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

/// Not thread-safe: one caller at a time. Its own threads work only during reset() and step(); between calls they
/// watch for work for some 20 us and then sleep.
class VectorEnv {
 public:
  /// Errors: kInvalidArgument on a count or number of threads out of range; those of make().
  static Result<std::unique_ptr<VectorEnv>> make(const VectorEnvOptions& options);
  ~VectorEnv();
  VectorEnv(const VectorEnv&) = delete;
  VectorEnv& operator=(const VectorEnv&) = delete;

  const EnvSpec& spec() const { return environments_.front()->spec(); }
  int count() const { return static_cast<int>(environments_.size()); }

  /// Starts the next episode of every instance.
  Status reset();

  /// One control step of every instance. actions: [count, action_size]. An instance whose last step was kLast ignores
  /// its action and starts its next episode with a kFirst step, as dm_env prescribes.
  /// Errors: kInvalidArgument on a span of another length; those of Environment::step() with the index of the first
  /// instance that failed. After an error of an instance the next call must be reset().
  Status step(std::span<const double> actions);

  /// What the last reset() or step() gave, valid until the next: [count], and [count, row_bytes] packed rows.
  std::span<const TimeStep> time_steps() const { return time_steps_; }
  std::span<const std::byte> observations() const { return observations_; }
  /// Row `index` of observations().
  std::span<const std::byte> observation(int index) const;

  /// One instance, e.g. to save its state or draw it. Stepping it here leaves time_steps() behind.
  Environment& environment(int index) { return *environments_[static_cast<std::size_t>(index)]; }

 private:
  VectorEnv(std::vector<std::unique_ptr<Environment>> environments, int threads);

  /// Advances all instances on all threads; actions are null for reset().
  Status run(const double* actions);
  /// Takes instances until none is left.
  void work();
  void advance(std::size_t index);
  void worker_loop();

  std::vector<std::unique_ptr<Environment>> environments_;
  std::size_t row_bytes_;
  std::size_t action_size_;
  std::vector<std::byte> observations_;
  std::vector<TimeStep> time_steps_;
  std::vector<std::optional<Error>> errors_;

  // The present round. A round ends when all instances are done, not when all threads are: a worker that the system has
  // not let run holds nobody up, and joins whatever round it finds.
  const double* actions_ = nullptr;           // written before next_index_ goes back to 0, read after taking an index
  std::atomic<std::size_t> next_index_{0};    // the next instance to take; none is left from count() on
  std::atomic<std::uint32_t> unfinished_{0};  // instances of this round; the caller sleeps on it
  std::atomic<std::uint32_t> round_{0};       // counts up; workers sleep on it
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace troupe::envs
