// dm_control/suite/cartpole.py: poles on a cart, one upon the other, to be balanced or swung up.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numbers>

#include <troupe/envs/model_source.hpp>
#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr int kMostPoles = 3;
constexpr int kFirstPole = 2;  // body, after the world and the cart

class Cartpole final : public Task {
 public:
  struct Options {
    bool swing_up;
    bool sparse;
  };
  Cartpole(const mjModel& model, Options options)
      : options_(options), poles_(static_cast<int>(model.nbody) - kFirstPole) {}

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {1 + 2 * poles_}}, {"velocity", DType::kF64, {1 + poles_}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    mjData& data = physics.data();
    const int joints = 1 + poles_;
    if (options_.swing_up) {
      data.qpos[0] = .01 * random.randn();
      data.qpos[1] = std::numbers::pi + .01 * random.randn();
      for (int joint = 2; joint < joints; ++joint) data.qpos[joint] = .1 * random.randn();
    } else {
      data.qpos[0] = random.uniform(-.1, .1);
      for (int joint = 1; joint < joints; ++joint) data.qpos[joint] = random.uniform(-.034, .034);
    }
    for (int joint = 0; joint < joints; ++joint) data.qvel[joint] = 0.01 * random.randn();
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    auto out = observation.begin();
    *out++ = physics.data().qpos[0];
    for (int pole = kFirstPole; pole < kFirstPole + poles_; ++pole) {
      *out++ = physics.rotation(pole)[8];
      *out++ = physics.rotation(pole)[2];
    }
    std::copy_n(physics.data().qvel, 1 + poles_, out);
  }

  double reward(const Physics& physics) const override {
    return options_.sparse ? sparse_reward(physics) : smooth_reward(physics);
  }

 private:
  double sparse_reward(const Physics& physics) const {
    double reward = 1;
    for (int pole = kFirstPole; pole < kFirstPole + poles_; ++pole) {
      reward *= tolerance(physics.rotation(pole)[8], {.lower = .995, .upper = 1});
    }
    return tolerance(physics.data().qpos[0], {.lower = -.25, .upper = .25}) * reward;
  }

  double smooth_reward(const Physics& physics) const {
    const mjData& data = physics.data();
    std::array<double, kMostPoles> heights{};
    double slowest = 1;
    for (int pole = 0; pole < poles_; ++pole) {
      heights[static_cast<std::size_t>(pole)] = (physics.rotation(kFirstPole + pole)[8] + 1) / 2;
      slowest = std::min(slowest, tolerance(data.qvel[1 + pole], {.margin = 5}));
    }
    const double centered = (1 + tolerance(data.qpos[0], {.margin = 2})) / 2;
    const double small_control =
        (4 + tolerance(data.ctrl[0], {.margin = 1, .sigmoid = Sigmoid::kQuadratic, .value_at_margin = 0})) / 5;
    const double small_velocity = (1 + slowest) / 2;
    return mean(std::span(heights).first(static_cast<std::size_t>(poles_))) * small_control * small_velocity * centered;
  }

  Options options_;
  int poles_;
};

/// Puts further poles on the first, lowers the floor and moves the cameras back.
template <int poles>
void add_poles(mjSpec& source) {
  const mjsDefault* pole = find_class(source, "pole");
  mjsBody* parent = &find_body(source, "pole_1");
  for (int number = 2; number <= poles; ++number) {
    mjsBody* body = mjs_addBody(parent, pole);
    mjs_setName(body->element, fmt::format("pole_{}", number).c_str());
    set_vector(body->pos, 0, 0, 1);
    mjs_setName(mjs_addJoint(body, pole)->element, fmt::format("hinge_{}", number).c_str());
    mjs_setName(mjs_addGeom(body, pole)->element, fmt::format("pole_{}", number).c_str());
    parent = body;
  }
  set_vector(find_geom(source, "floor").pos, 0, 0, 1 - poles - .05);
  set_vector(find_camera(source, "fixed").pos, 0, -1 - 2 * poles, 1);
  set_vector(find_camera(source, "lookatcart").pos, 0, -2 * poles, 2);
}

template <bool swing_up, bool sparse>
std::unique_ptr<Task> make_cartpole(const mjModel& model) {
  return std::make_unique<Cartpole>(model, Cartpole::Options{.swing_up = swing_up, .sparse = sparse});
}

constexpr TaskEntry cartpole_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&),
                                   ModelChanges change = {}) {
  return {
      .name = name, .model = "cartpole.xml", .time_limit_s = 10, .control_dt_s = .01, .change = change, .make = make};
}

constexpr std::array kCartpoleTasks = {
    cartpole_entry("cartpole-balance", make_cartpole<false, false>),
    cartpole_entry("cartpole-balance_sparse", make_cartpole<false, true>),
    cartpole_entry("cartpole-swingup", make_cartpole<true, false>),
    cartpole_entry("cartpole-swingup_sparse", make_cartpole<true, true>),
    cartpole_entry("cartpole-two_poles", make_cartpole<true, false>, {.source = add_poles<2>}),
    cartpole_entry("cartpole-three_poles", make_cartpole<true, false>, {.source = add_poles<3>})};

}  // namespace

std::span<const TaskEntry> cartpole_tasks() { return kCartpoleTasks; }

}  // namespace troupe::envs
