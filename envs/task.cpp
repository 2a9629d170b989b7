#include <troupe/envs/task.hpp>

#include <fmt/format.h>

#include <numbers>
#include <span>

#include <troupe/core/check.hpp>
#include <troupe/envs/numpy_math.hpp>

namespace troupe::envs {

void randomize_joints(Physics& physics, NumpyRandom& random) {
  const mjModel& model = physics.model();
  double* qpos = physics.data().qpos;
  for (int joint = 0; joint < model.njnt; ++joint) {
    const int type = model.jnt_type[joint];
    TROUPE_CHECK(type != mjJNT_BALL, "joint {} is a ball, which no model of the suite has", joint);
    double* const at = qpos + model.jnt_qposadr[joint];
    if (model.jnt_limited[joint]) {
      *at = random.uniform(model.jnt_range[2 * joint], model.jnt_range[2 * joint + 1]);
    } else if (type == mjJNT_HINGE) {
      *at = random.uniform(-std::numbers::pi, std::numbers::pi);
    } else if (type == mjJNT_FREE) {
      // dm_control draws uniform numbers where normal ones would give a uniform rotation, and keeps it for old results.
      const std::span<double> rotation(at + 3, 4);
      for (double& number : rotation) number = random.random_sample();
      normalize(rotation);
    }
  }
}

Status randomize_without_contact(Physics& physics, const std::function<Status()>& randomize) {
  constexpr int kMaxAttempts = 10000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    TROUPE_TRY(randomize());
    TROUPE_TRY(physics.forward_without_actuation());
    if (physics.data().ncon == 0) return {};
  }
  return Error{Code::kInternal, fmt::format("no collision-free start state in {} attempts", kMaxAttempts)};
}

Status randomize_joints_without_contact(Physics& physics, NumpyRandom& random) {
  return randomize_without_contact(physics, [&]() -> Status {
    randomize_joints(physics, random);
    return {};
  });
}

}  // namespace troupe::envs
