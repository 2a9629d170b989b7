// dm_control/suite/lqr.py: masses in a row on springs, of which the first are pushed: a linear quadratic regulator.
// Its springs are random, once for each seed. dm_control's episodes last until the masses rest, however long that
// takes; here they end after 1,000 steps at the latest, since an evaluation has to.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <troupe/envs/model_source.hpp>
#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kControlCost = .1;
constexpr double kAtRest = 1e-6;  // norm of the state at which an episode ends

class Lqr final : public Task {
 public:
  explicit Lqr(const mjModel& model)
      : bodies_(static_cast<std::size_t>(model.nq)), controls_(static_cast<std::size_t>(model.nu)) {}

  Signature observation_spec() const override {
    const auto size = static_cast<std::int64_t>(bodies_);
    return {{"position", DType::kF64, {size}}, {"velocity", DType::kF64, {size}}};
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kJointStiffnesses}; }

  void initialise_world(Physics& physics, NumpyRandom& random) const override {
    for (int joint = 0; joint < static_cast<int>(bodies_); ++joint) {
      physics.part(ModelPart::kJointStiffnesses, joint)[0] = random.uniform(15, 25);
      random.uniform(0, 0);  // of the damping, which dm_control draws too
    }
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    const std::span<double> positions(physics.data().qpos, bodies_);
    for (double& position : positions) position = random.randn();
    const double length = norm(positions);
    for (double& position : positions) position = std::sqrt(2) * position / length;
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    std::copy_n(physics.data().qvel, bodies_, std::copy_n(physics.data().qpos, bodies_, observation.begin()));
  }

  double reward(const Physics& physics) const override {
    const std::span<const double> positions(physics.data().qpos, bodies_);
    const std::span<const double> controls(physics.data().ctrl, controls_);
    return 1 - (0.5 * dot(positions, positions) + 0.5 * dot(controls, controls) * kControlCost);
  }

  bool finished(const Physics& physics) const override {
    std::array<double, 12> state{};
    const std::span<double> whole(state.data(), 2 * bodies_);
    observe(physics, whole);
    return norm(whole) < kAtRest;
  }

 private:
  std::size_t bodies_;
  std::size_t controls_;
};

template <int bodies, int controls>
void add_bodies(mjSpec& source) {
  const mjsDefault* usual = mjs_getSpecDefault(&source);
  mjsBody* parent = &find_body(source, "world");
  for (int number = 0; number < bodies; ++number) {
    const auto name = [](const char* what, int of) { return fmt::format("{}_{}", what, of); };
    mjsBody* body = mjs_addBody(parent, usual);
    mjs_setName(body->element, name("body", number).c_str());
    set_vector(body->pos, .25, 0, number == 0 ? .1 : 0);
    mjsJoint* joint = mjs_addJoint(body, usual);
    mjs_setName(joint->element, name("joint", number).c_str());
    joint->stiffness[0] = 20;  // in the middle of what initialise_world() draws
    mjs_setName(mjs_addGeom(body, usual)->element, name("geom", number).c_str());
    mjs_setName(mjs_addSite(body, usual)->element, name("site", number).c_str());
    if (number < controls) {
      mjsActuator* motor = mjs_addActuator(&source, usual);
      mjs_setToMotor(motor);
      mjs_setName(motor->element, name("motor", number).c_str());
      motor->trntype = mjTRN_JOINT;
      mjs_setString(motor->target, name("joint", number).c_str());
    }
    if (number < bodies - 1) {  // only to be seen
      mjsTendon* tendon = mjs_addTendon(&source, usual);
      mjs_setName(tendon->element, name("tendon", number).c_str());
      for (const int end : {number, number + 1}) mjs_wrapSite(tendon, name("site", end).c_str());
    }
    parent = body;
  }
}

template <int bodies, int controls>
constexpr TaskEntry lqr_entry(std::string_view name) {
  return {.name = name,
          .model = "lqr.xml",
          .time_limit_s = 30,
          .control_dt_s = .03,
          .change = {.source = add_bodies<bodies, controls>},
          .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<Lqr>(model); }};
}

constexpr std::array kLqrTasks = {lqr_entry<2, 1>("lqr-lqr_2_1"), lqr_entry<6, 2>("lqr-lqr_6_2")};

}  // namespace

std::span<const TaskEntry> lqr_tasks() { return kLqrTasks; }

}  // namespace troupe::envs
