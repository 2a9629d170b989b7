#include <troupe/envs/physics.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <new>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::envs {
namespace {

constexpr std::array<std::string_view, mjNWARNING> kWarningNames = {
    "inertia", "contact full", "constraints full", "bad qpos", "bad qvel", "bad qacc", "bad ctrl"};

// MuJoCo's own handler prints warnings and appends them to a file in the working directory. Here they are counted in
// mjData and returned as errors, so nothing is printed. Its errors are broken invariants, but for memory that it does
// not get.
void handle_log(const mjLogMessage* message) {
  if (message->level != mjLOG_ERROR) return;
  if (std::string_view(message->subject).find("allocate memory") != std::string_view::npos) throw std::bad_alloc();
  TROUPE_CHECK(false, "MuJoCo: {}", message->subject);
}

void install_log_handler() {
  static std::once_flag once;
  std::call_once(once, [] { mju_setLogHandler(handle_log); });
}

}  // namespace

Result<SharedModel> load_model(const std::filesystem::path& file, void (*prepare)(mjModel&)) {
  install_log_handler();
  std::array<char, 1024> message{};
  // The buffer is also filled with warnings when loading succeeds: only the pointer tells.
  mjModel* model = mj_loadXML(file.c_str(), nullptr, message.data(), static_cast<int>(message.size()));
  if (model == nullptr) {
    return Error{Code::kIo, fmt::format("load model {}: {}", file.string(), message.data())};
  }
  if (prepare != nullptr) prepare(*model);
  return SharedModel(model, [](const mjModel* owned) { mj_deleteModel(const_cast<mjModel*>(owned)); });
}

int object_id(const mjModel& model, mjtObj type, std::string_view name) {
  const int id = mj_name2id(&model, type, std::string(name).c_str());
  TROUPE_CHECK(id >= 0, "model has no {} named {}", mju_type2Str(type), name);
  return id;
}

int sensor_address(const mjModel& model, std::string_view name) {
  return model.sensor_adr[object_id(model, mjOBJ_SENSOR, name)];
}

Physics::Physics(SharedModel model)
    : shared_(std::move(model)),
      geom_positions_(shared_->geom_pos, shared_->geom_pos + 3 * shared_->ngeom),
      model_(*shared_) {
  model_.geom_pos = geom_positions_.data();
  data_.reset(mj_makeData(&model_));
  if (data_ == nullptr) throw std::bad_alloc();
}

std::span<double, 3> Physics::geom_position(int geom) {
  return std::span<double, 3>(geom_positions_.data() + 3 * geom, 3);
}

void Physics::clear_warnings() { std::fill(std::begin(data_->warning), std::end(data_->warning), mjWarningStat{}); }

Status Physics::check_no_warnings(std::string_view where) const {
  std::string names;
  for (std::size_t i = 0; i < kWarningNames.size(); ++i) {
    if (data_->warning[i].number > 0) names += fmt::format("{}{}", names.empty() ? "" : ", ", kWarningNames[i]);
  }
  if (names.empty()) return {};
  return Error{Code::kInternal, fmt::format("{}: the simulation diverged: MuJoCo warns of {}", where, names)};
}

void Physics::forward() {
  const int flags = model_.opt.disableflags;
  model_.opt.disableflags = flags | mjDSBL_ACTUATION;
  mj_forward(&model_, data_.get());
  model_.opt.disableflags = flags;
}

void Physics::reset() {
  mj_resetData(&model_, data_.get());
  forward();
}

Status Physics::forward_without_actuation() {
  clear_warnings();
  forward();
  return check_no_warnings("forward");
}

Status Physics::step(int steps) {
  clear_warnings();
  mjData* data = data_.get();
  int whole_steps = steps;
  if (model_.opt.integrator != mjINT_RK4) {
    // mj_step1 has already been done for this state, by the last call or by mj_forward.
    mj_step2(&model_, data);
    --whole_steps;
  }
  for (int i = 0; i < whole_steps; ++i) mj_step(&model_, data);
  mj_step1(&model_, data);
  return check_no_warnings("step");
}

std::vector<double> Physics::save_state() const {
  const auto size = static_cast<std::size_t>(mj_stateSize(&model_, mjSTATE_INTEGRATION));
  std::vector<double> state(size + geom_positions_.size());
  mj_getState(&model_, data_.get(), state.data(), mjSTATE_INTEGRATION);
  std::copy(geom_positions_.begin(), geom_positions_.end(), state.begin() + static_cast<std::ptrdiff_t>(size));
  return state;
}

bool Physics::restore_state(std::span<const double> state) {
  const auto size = static_cast<std::size_t>(mj_stateSize(&model_, mjSTATE_INTEGRATION));
  if (state.size() != size + geom_positions_.size()) return false;
  // Numbers beyond mjMAXVAL would make MuJoCo go back to its default state. The comparison is false for NaN.
  if (!std::all_of(state.begin(), state.end(), [](double x) { return std::abs(x) <= mjMAXVAL; })) return false;
  mj_resetData(&model_, data_.get());
  std::copy(state.begin() + static_cast<std::ptrdiff_t>(size), state.end(), geom_positions_.begin());
  mj_setState(&model_, data_.get(), state.data(), mjSTATE_INTEGRATION);
  mj_step1(&model_, data_.get());  // what step() expects to find done
  return true;
}

}  // namespace troupe::envs
