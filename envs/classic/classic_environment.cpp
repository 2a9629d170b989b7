#include <troupe/envs/classic/classic_environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <troupe/core/check.hpp>
#include <troupe/envs/shipped.hpp>

namespace troupe::envs {
namespace classic {
namespace {

constexpr std::array kProblems = {&kAcrobot, &kCartPole, &kMountainCar, &kMountainCarContinuous, &kPendulum};
constexpr std::size_t kMostObserved = 6;

EnvSpec spec_of(const Problem& problem) {
  return {.name = std::string(problem.name),
          .observation = {{"observation", DType::kF32, Shape{problem.observation_size}}},
          .action = problem.choices > 0 ? ActionSpec::discrete(problem.choices)
                                        : ActionSpec::continuous({-problem.bound}, {problem.bound}, DType::kF32),
          .episode_steps = problem.episode_steps,
          .control_dt = problem.control_dt};
}

/// save_state()'s bytes, in native byte order: checkpoints are for the same kind of machine, and the checksum around
/// them is the checkpointer's.
struct Saved {
  std::array<char, 8> magic = {'T', 'R', 'P', 'C', 'L', 'A', 'S', '1'};
  std::array<char, 32> name{};
  std::int64_t step_count = 0;
  std::uint64_t in_episode = 0;
  NumpyGenerator::State random;
  Numbers numbers{};
};
static_assert(std::is_trivially_copyable_v<Saved> && std::has_unique_object_representations_v<decltype(Saved::random)>);

Saved empty_of(const Problem& problem) {
  Saved saved;
  TROUPE_CHECK(problem.name.size() < saved.name.size(), "environment name {} is too long", problem.name);
  std::ranges::copy(problem.name, saved.name.begin());
  return saved;
}

std::vector<std::string> problem_names() {
  std::vector<std::string> names;
  for (const Problem* problem : kProblems) names.emplace_back(problem->name);
  return names;
}

MakeEnvironment make_problem(const std::string& name) {
  const auto found = std::ranges::find(kProblems, name, [](const Problem* problem) { return problem->name; });
  TROUPE_CHECK(found != kProblems.end(), "classic control has no {}", name);
  return [&problem = **found](std::uint64_t seed) -> Result<std::unique_ptr<Environment>> {
    return {std::make_unique<ClassicEnvironment>(problem, seed)};
  };
}

}  // namespace

ClassicEnvironment::ClassicEnvironment(const Problem& problem, std::uint64_t seed)
    : problem_(problem), spec_(spec_of(problem)), random_(seed) {}

Result<TimeStep> ClassicEnvironment::reset(std::uint64_t seed, std::span<std::byte> observation) {
  random_ = NumpyGenerator(seed);
  return reset(observation);
}

Result<TimeStep> ClassicEnvironment::reset(std::span<std::byte> observation) {
  numbers_ = problem_.start(random_);
  step_count_ = 0;
  in_episode_ = true;
  observe(observation);
  return TimeStep{};
}

Result<TimeStep> ClassicEnvironment::step(std::span<const std::byte> action, std::span<std::byte> observation) {
  TROUPE_TRY(check_action(spec_, action));
  if (!in_episode_) {
    return Error{Code::kUnavailable, fmt::format("{}: step() outside of an episode, expected reset()", spec_.name)};
  }
  double number = 0;
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, action.data(), sizeof(value));
    number = value;
  };
  spec_.action.discrete() ? read(std::int32_t{}) : read(float{});
  const Outcome outcome = problem_.step(state(), number);
  numbers_ = outcome.numbers;
  ++step_count_;
  in_episode_ = !outcome.terminated && step_count_ < spec_.episode_steps;
  observe(observation);
  return TimeStep{.type = in_episode_ ? StepType::kMid : StepType::kLast,
                  .reward = outcome.reward,
                  .discount = outcome.terminated ? 0.0 : 1.0};
}

void ClassicEnvironment::observe(std::span<std::byte> observation) const {
  std::array<float, kMostObserved> row;  // aligned, which the caller's bytes need not be
  const auto used = std::span(row).first(static_cast<std::size_t>(problem_.observation_size));
  TROUPE_CHECK(observation.size() == used.size_bytes(), "{}: observation span has {} bytes, expected {}", spec_.name,
               observation.size(), used.size_bytes());
  problem_.observe(state(), used);
  std::memcpy(observation.data(), used.data(), used.size_bytes());
}

std::vector<std::byte> ClassicEnvironment::save_state() const {
  Saved saved = empty_of(problem_);
  saved.step_count = step_count_;
  saved.in_episode = in_episode_ ? 1 : 0;
  saved.random = random_.state();
  saved.numbers = numbers_;
  const auto bytes = std::as_bytes(std::span(&saved, 1));
  return {bytes.begin(), bytes.end()};
}

Status ClassicEnvironment::restore_state(std::span<const std::byte> state) {
  const auto corrupt = [&](std::string_view what) {
    return Error{Code::kCorrupt, fmt::format("{}: saved state: {}", spec_.name, what)};
  };
  Saved saved;
  if (state.size() != sizeof(saved)) {
    return corrupt(fmt::format("got {} bytes, expected {}", state.size(), sizeof(saved)));
  }
  std::memcpy(&saved, state.data(), sizeof(saved));
  const Saved expected = empty_of(problem_);
  if (saved.magic != expected.magic) return corrupt("not the bytes of an environment");
  if (saved.name != expected.name) return corrupt("of another environment");
  if (saved.in_episode > 1) return corrupt("unknown phase");
  // An episode that has had all its steps is over.
  if (saved.step_count < 0 || saved.step_count > spec_.episode_steps - static_cast<std::int64_t>(saved.in_episode)) {
    return corrupt("step count out of range");
  }
  for (std::size_t i = 0; i < saved.numbers.size(); ++i) {
    if (!(std::abs(saved.numbers[i]) <= problem_.limits[i])) {
      return corrupt(fmt::format("number {} is {}, expected at most {} in either direction", i, saved.numbers[i],
                                 problem_.limits[i]));
    }
  }
  if (!random_.set_state(saved.random)) return corrupt("not a state of the random stream");
  numbers_ = saved.numbers;
  step_count_ = saved.step_count;
  in_episode_ = saved.in_episode == 1;
  return {};
}

}  // namespace classic

Origin classic_control() { return {classic::problem_names, classic::make_problem}; }

}  // namespace troupe::envs
