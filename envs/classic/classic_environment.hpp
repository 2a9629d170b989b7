#pragma once
// gymnasium's Env in its TimeLimit: a Problem with a random stream and a step count. All environments of classic
// control are this class with another problem.
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/envs/classic/problem.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/numpy_generator.hpp>

namespace troupe::envs::classic {

class ClassicEnvironment final : public Environment {
 public:
  /// problem: outlives the environment.
  ClassicEnvironment(const Problem& problem, std::uint64_t seed);

  const EnvSpec& spec() const override { return spec_; }
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override;
  Result<TimeStep> reset(std::span<std::byte> observation) override;
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override;
  std::vector<std::byte> save_state() const override;
  Status restore_state(std::span<const std::byte> state) override;

  /// For tests that compare the state itself with gymnasium's.
  const Numbers& numbers() const { return numbers_; }

 private:
  State state() const { return {numbers_, step_count_ == 0}; }
  void observe(std::span<std::byte> observation) const;

  const Problem& problem_;
  EnvSpec spec_;
  NumpyGenerator random_;
  Numbers numbers_{};
  std::int64_t step_count_ = 0;
  bool in_episode_ = false;
};

}  // namespace troupe::envs::classic
