// Plays one environment from a file of actions and dumps all that it did, for dm_control_parity.py to compare.
//
//   env_trace NAME SEED [HEIGHT WIDTH] < actions > trace
//
// actions: rows of float64[action_size], native byte order, to the end of the input. As in dm_env, the action after an
// episode's last step is ignored and starts the next episode. The trace has one row for the first reset and one per
// action: float64 step type, reward, discount, observation, qpos, qvel; then the HEIGHT x WIDTH x 3 pixels if asked
// for.
#include <cstdio>
#include <cstdlib>
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) fail("usage: env_trace NAME SEED [HEIGHT WIDTH] < actions > trace");
  const std::uint64_t seed = std::stoull(argv[2]);
  auto made = troupe::envs::make_environment(argv[1], seed);
  if (!made.ok()) fail(made.error().message);
  auto* env = dynamic_cast<troupe::envs::MujocoEnvironment*>(made->get());
  if (env == nullptr) fail("not a MuJoCo environment");
  const mjModel& model = env->physics().model();

  troupe::envs::RenderOptions frame;
  std::vector<std::uint8_t> pixels;
  if (argc == 5) {
    frame.height = std::stoi(argv[3]);
    frame.width = std::stoi(argv[4]);
    pixels.resize(static_cast<std::size_t>(frame.height) * static_cast<std::size_t>(frame.width) * 3);
  }

  std::vector<double> observation(static_cast<std::size_t>(env->spec().observation_size()));
  std::vector<double> action(static_cast<std::size_t>(env->spec().action_size()));
  const auto bytes = std::as_writable_bytes(std::span(observation));
  const auto dump = [&](const TimeStep& step) {
    const double scalars[] = {static_cast<double>(step.type), step.reward, step.discount};
    write(scalars, 3);
    write(observation.data(), observation.size());
    write(env->physics().data().qpos, static_cast<std::size_t>(model.nq));
    write(env->physics().data().qvel, static_cast<std::size_t>(model.nv));
    if (pixels.empty()) return;
    if (auto rendered = env->render(frame, pixels); !rendered.ok()) fail(rendered.error().message);
    write(pixels.data(), pixels.size());
  };

  TimeStep step = checked(env->reset(bytes));
  dump(step);
  while (std::fread(action.data(), sizeof(double), action.size(), stdin) == action.size()) {
    step = checked(step.last() ? env->reset(bytes) : env->step(std::as_bytes(std::span(action)), bytes));
    dump(step);
  }
  return 0;
}
