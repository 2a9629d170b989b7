#pragma once
// What an environment around another one is made of. A wrapper changes what an agent sees, does or is rewarded for, and
// leaves all else to the environment inside. Those that ship are in envs/wrappers/, a configuration lists them by name
// (run/registry.hpp), and a user's own are made of the same class: docs/adding_an_environment.md.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {

/// Does what the environment inside does. A wrapper overrides what it changes.
class Wrapper : public Environment {
 public:
  const EnvSpec& spec() const override { return spec_; }
  Result<TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override {
    return inside_->reset(seed, observation);
  }
  Result<TimeStep> reset(std::span<std::byte> observation) override { return inside_->reset(observation); }
  Result<TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override {
    return inside_->step(action, observation);
  }
  /// What the wrapper remembers, then the state of the environment inside.
  std::vector<std::byte> save_state() const final;
  Status restore_state(std::span<const std::byte> state) final;
  Status render(const RenderOptions& options, std::span<std::uint8_t> pixels) override {
    return inside_->render(options, pixels);
  }

 protected:
  /// Its spec is that of `inside` until the wrapper's own constructor changes it by own_spec().
  explicit Wrapper(std::unique_ptr<Environment> inside) : inside_(std::move(inside)), spec_(inside_->spec()) {}
  Wrapper(std::unique_ptr<Environment> inside, EnvSpec spec) : inside_(std::move(inside)), spec_(std::move(spec)) {}

  EnvSpec& own_spec() { return spec_; }
  Environment& inside() { return *inside_; }
  const Environment& inside() const { return *inside_; }

  /// What step() depends on beside the state of the environment inside: a counter, say, or the last frames. It is as
  /// many bytes at any time.
  virtual std::vector<std::byte> save_own() const { return {}; }
  /// own: as many bytes as save_own() gives. Errors: kCorrupt when they cannot be its own; then nothing changes.
  virtual Status restore_own(std::span<const std::byte> own);

 private:
  std::unique_ptr<Environment> inside_;
  EnvSpec spec_;
};

/// Puts a wrapper around an environment. seed: for what the wrapper draws itself until the first reset(seed, ...).
/// Called from any thread, also from several at once. Errors: kInvalidArgument when it does not fit the environment's
/// spec, saying what it expected.
using Wrap =
    std::function<Result<std::unique_ptr<Environment>>(std::unique_ptr<Environment> inside, std::uint64_t seed)>;

/// One wrapper of a list, by the name that the list has it by.
struct NamedWrap {
  std::string name;
  Wrap wrap;
};

/// make's environments with all of `wrappers` around them, the first of which is the innermost. An error of a wrapper
/// begins with its name.
MakeEnvironment wrapped(MakeEnvironment make, std::vector<NamedWrap> wrappers);

}  // namespace troupe::envs
