// Plays one environment from a file of commands and dumps all that it did, for dm_control_parity.py and
// gymnasium_parity.py to compare.
//
//   env_trace NAME SEED [HEIGHT WIDTH CAMERA...] < commands > trace
//   env_trace NAME      says what the environment is: a line for each column of the observation, one for the control
//                       step and the episode, one for the lower and one for the upper bounds of an action (or one for
//                       its choices)
//
// State: of the suite qpos and qvel, of classic control its four numbers.
// commands: rows of float64[1 + max(action_size, state_size)], native byte order, to the end of the input. The first
// number says which: 0 step with the action that follows; 1 reset, 2 (of the suite) put the simulation into the state
// that follows, within the episode; 3 reset with the seed whose low and high 32 bits follow. As in dm_env, the step
// after an episode's last one starts the next episode instead. The trace has one row for the first reset and one for
// each reset and step: float64 step type, reward, discount, observation, state; then the HEIGHT x WIDTH x 3 pixels of
// each camera if asked for.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <troupe/envs/classic/classic_environment.hpp>
#include <troupe/envs/mujoco_environment.hpp>

namespace {

using troupe::Result;
using troupe::envs::Environment;
using troupe::envs::MujocoEnvironment;
using troupe::envs::TimeStep;
using troupe::envs::classic::ClassicEnvironment;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "env_trace: %s\n", message.c_str());
  std::exit(1);
}

TimeStep checked(const Result<TimeStep>& step) {
  if (!step.ok()) fail(step.error().message);
  return *step;
}

template <typename T>
void write(const T* values, std::size_t count) {
  if (std::fwrite(values, sizeof(T), count, stdout) != count) fail("cannot write to standard output");
}

void print_spec(const troupe::envs::EnvSpec& spec) {
  for (const auto& column : spec.observation) {
    std::printf("%s", column.name.c_str());
    for (const std::int64_t size : column.shape.dims()) std::printf(" %ld", static_cast<long>(size));
    std::printf("\n");
  }
  std::printf("%.17g %ld\n", spec.control_dt, static_cast<long>(spec.episode_steps));
  if (spec.action.discrete()) {
    std::printf("%ld choices\n", static_cast<long>(spec.action.choices));
    return;
  }
  for (const auto* bounds : {&spec.action.low, &spec.action.high}) {
    for (const double bound : *bounds) std::printf("%.17g ", bound);
    std::printf("\n");
  }
}

/// The state of an environment, which its interface does not show.
class Inside {
 public:
  explicit Inside(Environment& env)
      : mujoco_(dynamic_cast<MujocoEnvironment*>(&env)), classic_(dynamic_cast<ClassicEnvironment*>(&env)) {
    if (mujoco_ == nullptr && classic_ == nullptr) fail("not an environment of the suite or of classic control");
  }

  std::vector<double> numbers() const {
    if (classic_ != nullptr) return {classic_->numbers().begin(), classic_->numbers().end()};
    const mjModel& model = mujoco_->physics().model();
    const mjData& data = mujoco_->physics().data();
    std::vector<double> numbers(data.qpos, data.qpos + model.nq);
    numbers.insert(numbers.end(), data.qvel, data.qvel + model.nv);
    return numbers;
  }
  void put(std::span<const double> numbers) {
    if (mujoco_ == nullptr) fail("only the suite's environments are put into a state");
    auto& physics = mujoco_->physics();
    physics.reset();
    const auto nq = static_cast<std::size_t>(physics.model().nq), nv = static_cast<std::size_t>(physics.model().nv);
    std::ranges::copy(numbers.first(nq), physics.data().qpos);
    std::ranges::copy(numbers.subspan(nq, nv), physics.data().qvel);
    if (const auto put = physics.forward_without_actuation(); !put.ok()) fail(put.error().message);
  }

 private:
  MujocoEnvironment* mujoco_;
  ClassicEnvironment* classic_;
};

/// Calls `use` with a number of the type that `dtype` is.
template <typename Use>
void with_type(troupe::DType dtype, Use use) {
  dtype == troupe::DType::kF64 ? use(double{}) : dtype == troupe::DType::kF32 ? use(float{}) : use(std::int32_t{});
}

std::vector<std::byte> action_of(const troupe::TensorSpec& tensor, std::span<const double> numbers) {
  std::vector<std::byte> action(tensor.bytes());
  with_type(tensor.dtype, [&](auto number) {
    for (std::size_t i = 0; i < action.size() / sizeof(number); ++i) {
      number = static_cast<decltype(number)>(numbers[i]);
      std::memcpy(action.data() + i * sizeof(number), &number, sizeof(number));
    }
  });
  return action;
}

void write_observation(const troupe::Signature& columns, const std::byte* row) {
  for (const auto& column : columns) {
    with_type(column.dtype, [&](auto number) {
      for (std::int64_t i = 0; i < column.shape.elements(); ++i, row += sizeof(number)) {
        std::memcpy(&number, row, sizeof(number));
        const auto wide = static_cast<double>(number);
        write(&wide, 1);
      }
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc == 4 || argc == 5)
    fail("usage: env_trace NAME [SEED [HEIGHT WIDTH CAMERA...] < commands > trace]");
  const std::uint64_t seed = argc == 2 ? 0 : std::stoull(argv[2]);
  const auto made = troupe::envs::make_environment(argv[1], seed);
  if (!made.ok()) fail(made.error().message);
  Environment& env = **made;
  if (argc == 2) {
    print_spec(env.spec());
    return 0;
  }

  troupe::envs::RenderOptions frame;
  std::vector<std::uint8_t> pixels;
  const std::vector<std::string> cameras(argv + std::min(argc, 5), argv + argc);
  if (!cameras.empty()) {
    frame.height = std::stoi(argv[3]);
    frame.width = std::stoi(argv[4]);
    pixels.resize(static_cast<std::size_t>(frame.height) * static_cast<std::size_t>(frame.width) * 3);
  }

  Inside inside(env);
  std::vector<std::byte> row(troupe::row_bytes(env.spec().observation));
  std::vector<double> command(1 +
                              std::max(static_cast<std::size_t>(env.spec().action_size()), inside.numbers().size()));
  const auto numbers = std::span(command).subspan(1);
  const auto dump = [&](const TimeStep& step) {
    const double scalars[] = {static_cast<double>(step.type), step.reward, step.discount};
    write(scalars, 3);
    write_observation(env.spec().observation, row.data());
    const std::vector<double> state = inside.numbers();
    write(state.data(), state.size());
    for (const std::string& camera : cameras) {
      frame.camera = camera;
      if (auto rendered = env.render(frame, pixels); !rendered.ok()) fail(rendered.error().message);
      write(pixels.data(), pixels.size());
    }
  };

  TimeStep step = checked(env.reset(row));
  dump(step);
  while (std::fread(command.data(), sizeof(double), command.size(), stdin) == command.size()) {
    if (command[0] == 2) {
      inside.put(numbers);
      continue;
    }
    if (command[0] == 3) {
      const auto low = static_cast<std::uint64_t>(numbers[0]), high = static_cast<std::uint64_t>(numbers[1]);
      step = checked(env.reset(high << 32 | low, row));
    } else if (command[0] == 1 || step.last()) {
      step = checked(env.reset(row));
    } else {
      step = checked(env.step(action_of(env.spec().action.tensor, numbers), row));
    }
    dump(step);
  }
  return 0;
}
