// dm_control/suite/cartpole.py: one pole on a cart, to be balanced or swung up.
#include <array>
#include <numbers>

#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class Cartpole final : public Task {
 public:
  struct Options {
    bool swing_up;
    bool sparse;
  };
  Cartpole(const mjModel& model, Options options) : options_(options), pole_(object_id(model, mjOBJ_BODY, "pole_1")) {}

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {3}}, {"velocity", DType::kF64, {2}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    mjData& data = physics.data();
    if (options_.swing_up) {
      data.qpos[0] = .01 * random.randn();
      data.qpos[1] = std::numbers::pi + .01 * random.randn();
    } else {
      data.qpos[0] = random.uniform(-.1, .1);
      data.qpos[1] = random.uniform(-.034, .034);
    }
    data.qvel[0] = 0.01 * random.randn();
    data.qvel[1] = 0.01 * random.randn();
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    observation[0] = physics.data().qpos[0];
    observation[1] = physics.rotation(pole_)[8];
    observation[2] = physics.rotation(pole_)[2];
    observation[3] = physics.data().qvel[0];
    observation[4] = physics.data().qvel[1];
  }

  double reward(const Physics& physics) const override {
    const mjData& data = physics.data();
    const double cosine = physics.rotation(pole_)[8];
    if (options_.sparse) {
      return tolerance(data.qpos[0], {.lower = -.25, .upper = .25}) * tolerance(cosine, {.lower = .995, .upper = 1});
    }
    const double upright = (cosine + 1) / 2;
    const double centered = (1 + tolerance(data.qpos[0], {.margin = 2})) / 2;
    const double small_control =
        (4 + tolerance(data.ctrl[0], {.margin = 1, .sigmoid = Sigmoid::kQuadratic, .value_at_margin = 0})) / 5;
    const double small_velocity = (1 + tolerance(data.qvel[1], {.margin = 5})) / 2;
    return upright * small_control * small_velocity * centered;
  }

 private:
  Options options_;
  int pole_;
};

template <bool swing_up, bool sparse>
std::unique_ptr<Task> make(const mjModel& model) {
  return std::make_unique<Cartpole>(model, Cartpole::Options{.swing_up = swing_up, .sparse = sparse});
}

constexpr TaskEntry entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {
      .name = name, .model = "cartpole.xml", .time_limit_s = 10, .control_dt_s = .01, .prepare = nullptr, .make = make};
}

constexpr std::array kCartpoleTasks = {
    entry("cartpole-balance", make<false, false>), entry("cartpole-balance_sparse", make<false, true>),
    entry("cartpole-swingup", make<true, false>), entry("cartpole-swingup_sparse", make<true, true>)};

}  // namespace

std::span<const TaskEntry> cartpole_tasks() { return kCartpoleTasks; }

}  // namespace troupe::envs
