#pragma once
// dm_control's control.Environment: a Task on a Physics with a time limit. All suite environments are this class with
// another task.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/envs/environment.hpp>
#include <troupe/envs/physics.hpp>
#include <troupe/envs/renderer.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {

class MujocoEnvironment final : public Environment {
 public:
  /// The model of entry.model and entry.change; a simulation needs none of its textures.
  using Models = std::function<Result<SharedModel>(Textures)>;

  /// models: is asked for all textures when a frame is first wanted. Errors: those of `models`.
  static Result<std::unique_ptr<Environment>> make(const TaskEntry& entry, Models models, std::uint64_t seed);

  const EnvSpec& spec() const override { return spec_; }
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override;
  Result<TimeStep> reset(std::span<std::byte> observation) override;
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override;
  std::vector<std::byte> save_state() const override;
  Status restore_state(std::span<const std::byte> state) override;
  Status render(const RenderOptions& options, std::span<std::uint8_t> pixels) override;

  /// For tests that compare the state itself with dm_control's, or put the simulation into one.
  Physics& physics() { return physics_; }

 private:
  MujocoEnvironment(const TaskEntry& entry, SharedModel model, Models models, std::uint64_t seed);

  enum class Phase : std::uint32_t { kNeedsReset = 0, kInEpisode = 1 };

  void observe(std::span<std::byte> observation);
  /// The one of this size and profile, which has the present heights.
  Result<Renderer*> renderer(const RenderOptions& options);
  void heights_have_changed();

  Models models_;
  std::unique_ptr<Task> task_;
  Physics physics_;
  NumpyRandom random_;
  EnvSpec spec_;
  int sub_steps_;  // model time steps in one control step
  std::int64_t step_count_ = 0;
  Phase phase_ = Phase::kNeedsReset;
  std::vector<double> observation_;  // aligned, which the caller's bytes need not be
  struct Drawing {
    std::unique_ptr<Renderer> renderer;
    bool has_heights;  // false when they have changed since the renderer took them
  };
  std::vector<Drawing> renderers_;
};

}  // namespace troupe::envs
