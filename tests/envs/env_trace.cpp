// Plays one environment from a file of commands and dumps all that it did, for dm_control_parity.py to compare.
//
//   env_trace NAME SEED [HEIGHT WIDTH CAMERA...] < commands > trace
//   env_trace NAME      says what the environment is: a line for each column of the observation, one for the control
//                       step and the episode, one for the lower and one for the upper bounds of an action
//
// commands: rows of float64[1 + max(action_size, nq + nv)], native byte order, to the end of the input. The first
// number says which: 0 step with the action that follows; 1 reset, 2 put the simulation into the state that follows
// (qpos, qvel), within the episode. As in dm_env, the step after an episode's last one starts the next episode
// instead. The trace has one row for the first reset and one for each reset and step: float64 step type, reward,
// discount, observation, qpos, qvel; then the HEIGHT x WIDTH x 3 pixels of each camera if asked for.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <troupe/envs/mujoco_environment.hpp>

namespace {

using troupe::Result;
using troupe::envs::TimeStep;

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
  for (const auto* bounds : {&spec.action.low, &spec.action.high}) {
    for (const double bound : *bounds) std::printf("%.17g ", bound);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc == 4 || argc == 5)
    fail("usage: env_trace NAME [SEED [HEIGHT WIDTH CAMERA...] < commands > trace]");
  const std::uint64_t seed = argc == 2 ? 0 : std::stoull(argv[2]);
  auto made = troupe::envs::make_environment(argv[1], seed);
  if (!made.ok()) fail(made.error().message);
  auto* env = dynamic_cast<troupe::envs::MujocoEnvironment*>(made->get());
  if (env == nullptr) fail("not a MuJoCo environment");
  if (argc == 2) {
    print_spec(env->spec());
    return 0;
  }
  const mjModel& model = env->physics().model();

  troupe::envs::RenderOptions frame;
  std::vector<std::uint8_t> pixels;
  const std::vector<std::string> cameras(argv + std::min(argc, 5), argv + argc);
  if (!cameras.empty()) {
    frame.height = std::stoi(argv[3]);
    frame.width = std::stoi(argv[4]);
    pixels.resize(static_cast<std::size_t>(frame.height) * static_cast<std::size_t>(frame.width) * 3);
  }

  std::vector<double> observation(static_cast<std::size_t>(env->spec().observation_size()));
  const auto action_size = static_cast<std::size_t>(env->spec().action_size());
  const auto nq = static_cast<std::size_t>(model.nq);
  const auto nv = static_cast<std::size_t>(model.nv);
  std::vector<double> command(1 + std::max(action_size, nq + nv));
  const auto numbers = std::span(command).subspan(1);
  const auto bytes = std::as_writable_bytes(std::span(observation));
  const auto dump = [&](const TimeStep& step) {
    const double scalars[] = {static_cast<double>(step.type), step.reward, step.discount};
    write(scalars, 3);
    write(observation.data(), observation.size());
    write(env->physics().data().qpos, nq);
    write(env->physics().data().qvel, nv);
    for (const std::string& camera : cameras) {
      frame.camera = camera;
      if (auto rendered = env->render(frame, pixels); !rendered.ok()) fail(rendered.error().message);
      write(pixels.data(), pixels.size());
    }
  };

  TimeStep step = checked(env->reset(bytes));
  dump(step);
  while (std::fread(command.data(), sizeof(double), command.size(), stdin) == command.size()) {
    if (command[0] == 2) {
      env->physics().reset();
      std::copy_n(numbers.begin(), nq, env->physics().data().qpos);
      std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(nq), nv, env->physics().data().qvel);
      if (const auto put = env->physics().forward_without_actuation(); !put.ok()) fail(put.error().message);
      continue;
    }
    const bool starts = command[0] == 1 || step.last();
    step = checked(starts ? env->reset(bytes) : env->step(std::as_bytes(numbers.first(action_size)), bytes));
    dump(step);
  }
  return 0;
}
