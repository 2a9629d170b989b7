#include <troupe/envs/task.hpp>

#include <numbers>

#include <troupe/core/check.hpp>

namespace troupe::envs {

void randomize_joints(Physics& physics, NumpyRandom& random) {
  const mjModel& model = physics.model();
  double* qpos = physics.data().qpos;
  for (int joint = 0; joint < model.njnt; ++joint) {
    const int type = model.jnt_type[joint];
    TROUPE_CHECK(type == mjJNT_HINGE || type == mjJNT_SLIDE, "joint {} is neither hinge nor slide", joint);
    if (model.jnt_limited[joint]) {
      qpos[model.jnt_qposadr[joint]] = random.uniform(model.jnt_range[2 * joint], model.jnt_range[2 * joint + 1]);
    } else if (type == mjJNT_HINGE) {
      qpos[model.jnt_qposadr[joint]] = random.uniform(-std::numbers::pi, std::numbers::pi);
    }
  }
}

}  // namespace troupe::envs
