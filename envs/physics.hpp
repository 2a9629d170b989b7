#pragma once
// One MuJoCo simulation, stepped exactly as dm_control's mujoco.Physics steps it (mujoco/engine.py, legacy_step=True).
// Tasks read and write its state; MujocoEnvironment drives it.
#include <mujoco/mujoco.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::envs {

/// A compiled model, shared by all simulations that are made from it and never changed after loading.
using SharedModel = std::shared_ptr<const mjModel>;

/// What a task changes of its model for all episodes. Each may be null.
struct ModelChanges {
  void (*source)(mjSpec&) = nullptr;     ///< adds and removes elements before the model is compiled
  void (*compiled)(mjModel&) = nullptr;  ///< writes numbers of the compiled model, from which nothing else follows
};

/// Whether a model has its textures, or one pixel in the place of each. They are for who draws: three quarters of the
/// time in which a model of the suite compiles, and nearly all of its memory.
enum class Textures : std::uint8_t { kNone, kAll };

/// Parses, changes and compiles an MJCF file. Errors: kIo when the file is missing or does not compile; the message
/// carries MuJoCo's.
Result<SharedModel> load_model(const std::filesystem::path& file, const ModelChanges& changes, Textures textures);

/// Index of a named object; the name must exist, since models are pinned by hash.
int object_id(const mjModel& model, mjtObj type, std::string_view name);
/// Where the position of a named joint starts in mjData::qpos.
int position_address(const mjModel& model, std::string_view joint);
/// Where the velocity of a named joint starts in mjData::qvel.
int velocity_address(const mjModel& model, std::string_view joint);
/// Where the values of a named sensor start in mjData::sensordata.
int sensor_address(const mjModel& model, std::string_view name);

/// A part of the model that a task may change from episode to episode. A simulation has its own copy of such a part and
/// saves it with its state; all else it shares with the others.
enum class ModelPart : std::uint8_t {
  kBodyPositions,       ///< in the parent's frame, 3 a body
  kBodyRotations,       ///< quaternions in the parent's frame, 4 a body
  kGeomPositions,       ///< in the body's frame, 3 a geom
  kSitePositions,       ///< in the body's frame, 3 a site
  kLightPositions,      ///< in the body's frame, 3 a light
  kJointStiffnesses,    ///< 1 a joint
  kTendonCoefficients,  ///< 1 an object that a tendon goes along
  kHeights,             ///< of all height fields, as floats: heights() instead of part()
};

class Physics {
 public:
  /// own: the parts that part() and heights() will be asked for.
  explicit Physics(SharedModel model, std::span<const ModelPart> own = {});
  Physics(const Physics&) = delete;
  Physics& operator=(const Physics&) = delete;

  /// This simulation's view of the model: the options and the own parts are its own, all else is shared.
  const mjModel& model() const { return model_; }
  mjData& data() { return *data_; }
  const mjData& data() const { return *data_; }

  /// The numbers of one object (a body, geom, site...) in a part of the model that is this simulation's own.
  std::span<double> part(ModelPart part, int object);
  /// The points of the model's height fields when these are this simulation's own, else none.
  std::span<float> heights() { return own_heights_; }
  /// Rotation matrix of a body, 9 numbers, row-major: entry 0 is dm_control's 'xx', 2 its 'xz', 8 its 'zz'.
  const double* rotation(int body) const { return data_->xmat + 9 * body; }

  /// Default state, then forward dynamics without actuation. As in dm_control, divergence is not an error here: the
  /// task is about to write a start state.
  void reset();
  /// Recomputes everything that derives from the state, with actuation off. Errors: kInternal on a MuJoCo warning.
  Status forward_without_actuation();
  /// Advances by `steps` >= 1 time steps and leaves positions, velocities and what derives from them up to date.
  /// Errors: kInternal, naming MuJoCo's warnings, when the state diverges.
  Status step(int steps);

  /// All that step() depends on, as numbers.
  std::vector<double> save_state() const;
  /// Continues bit for bit. False, and nothing changes, when `state` is not of this model or holds a number that MuJoCo
  /// takes for a diverged simulation (NaN, or beyond mjMAXVAL).
  [[nodiscard]] bool restore_state(std::span<const double> state);

 private:
  struct DeleteData {
    void operator()(mjData* data) const { mj_deleteData(data); }
  };
  // dm_control's check_invalid_state(): MuJoCo counts its warnings in mjData; any that came since clear is an error.
  void clear_warnings();
  Status check_no_warnings(std::string_view where) const;
  void forward();

  struct OwnPart {
    ModelPart part;
    std::vector<double> numbers;
  };

  SharedModel shared_;
  std::vector<OwnPart> own_;
  std::vector<float> own_heights_;
  mjModel model_;  // copied member by member; its pointers lead into *shared_, those of own parts into those
  std::unique_ptr<mjData, DeleteData> data_;
};

}  // namespace troupe::envs
