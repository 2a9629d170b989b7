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

/// Where a part lies in a model.
struct PartPlace {
  mjtNum* mjModel::*numbers;
  mjtSize mjModel::*objects;
  std::size_t width;  // numbers an object
};

PartPlace place_of(ModelPart part) {
  switch (part) {
    case ModelPart::kBodyPositions:
      return {&mjModel::body_pos, &mjModel::nbody, 3};
    case ModelPart::kBodyRotations:
      return {&mjModel::body_quat, &mjModel::nbody, 4};
    case ModelPart::kGeomPositions:
      return {&mjModel::geom_pos, &mjModel::ngeom, 3};
    case ModelPart::kSitePositions:
      return {&mjModel::site_pos, &mjModel::nsite, 3};
    case ModelPart::kLightPositions:
      return {&mjModel::light_pos, &mjModel::nlight, 3};
    case ModelPart::kJointStiffnesses:
      return {&mjModel::jnt_stiffness, &mjModel::njnt, 1};
    case ModelPart::kTendonCoefficients:
      return {&mjModel::wrap_prm, &mjModel::nwrap, 1};
    case ModelPart::kHeights:
      break;  // floats
  }
  TROUPE_CHECK(false, "model part {} is none of those of numbers", static_cast<int>(part));
}

/// One pixel for each, so that materials find theirs and all else compiles to what it would be.
void blank_textures(mjSpec& source) {
  for (mjsElement* each = mjs_firstElement(&source, mjOBJ_TEXTURE); each != nullptr;
       each = mjs_nextElement(&source, each)) {
    mjsTexture& texture = *mjs_asTexture(each);
    mjs_setString(texture.file, "");
    texture.builtin = mjBUILTIN_FLAT;
    texture.mark = mjMARK_NONE;
    texture.width = texture.height = 1;
  }
}

}  // namespace

Result<SharedModel> load_model(const std::filesystem::path& file, const ModelChanges& changes, Textures textures) {
  install_log_handler();
  const auto failed = [&](const char* message) {
    return Error{Code::kIo, fmt::format("load model {}: {}", file.string(), message)};
  };
  // The buffer is also filled with warnings when parsing succeeds: only the pointer tells.
  std::array<char, 1024> message{};
  const std::unique_ptr<mjSpec, void (*)(mjSpec*)> source(
      mj_parseXML(file.c_str(), nullptr, message.data(), static_cast<int>(message.size())), mj_deleteSpec);
  if (source == nullptr) return failed(message.data());
  if (changes.source != nullptr) changes.source(*source);
  if (textures == Textures::kNone) blank_textures(*source);
  mjModel* model = mj_compile(source.get(), nullptr);
  if (model == nullptr) return failed(mjs_getError(source.get()));
  if (changes.compiled != nullptr) changes.compiled(*model);
  return SharedModel(model, [](const mjModel* owned) { mj_deleteModel(const_cast<mjModel*>(owned)); });
}

int object_id(const mjModel& model, mjtObj type, std::string_view name) {
  const int id = mj_name2id(&model, type, std::string(name).c_str());
  TROUPE_CHECK(id >= 0, "model has no {} named {}", mju_type2Str(type), name);
  return id;
}

int position_address(const mjModel& model, std::string_view joint) {
  return model.jnt_qposadr[object_id(model, mjOBJ_JOINT, joint)];
}

int velocity_address(const mjModel& model, std::string_view joint) {
  return model.jnt_dofadr[object_id(model, mjOBJ_JOINT, joint)];
}

int sensor_address(const mjModel& model, std::string_view name) {
  return model.sensor_adr[object_id(model, mjOBJ_SENSOR, name)];
}

Physics::Physics(SharedModel model, std::span<const ModelPart> own) : shared_(std::move(model)), model_(*shared_) {
  own_.reserve(own.size());  // their numbers stay where they are
  for (const ModelPart part : own) {
    if (part == ModelPart::kHeights) {
      own_heights_.assign(model_.hfield_data, model_.hfield_data + model_.nhfielddata);
      model_.hfield_data = own_heights_.data();
      continue;
    }
    const PartPlace place = place_of(part);
    const mjtNum* const begin = model_.*place.numbers;
    const std::size_t count = static_cast<std::size_t>(model_.*place.objects) * place.width;
    model_.*place.numbers = own_.emplace_back(OwnPart{part, {begin, begin + count}}).numbers.data();
  }
  data_.reset(mj_makeData(&model_));
  if (data_ == nullptr) throw std::bad_alloc();
}

std::span<double> Physics::part(ModelPart part, int object) {
  const auto found = std::find_if(own_.begin(), own_.end(), [&](const OwnPart& own) { return own.part == part; });
  TROUPE_CHECK(found != own_.end(), "model part {} is shared", static_cast<int>(part));
  const std::size_t width = place_of(part).width;
  return std::span(found->numbers).subspan(static_cast<std::size_t>(object) * width, width);
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
  std::vector<double> state(size);
  mj_getState(&model_, data_.get(), state.data(), mjSTATE_INTEGRATION);
  for (const OwnPart& own : own_) state.insert(state.end(), own.numbers.begin(), own.numbers.end());
  state.insert(state.end(), own_heights_.begin(), own_heights_.end());
  return state;
}

bool Physics::restore_state(std::span<const double> state) {
  const auto size = static_cast<std::size_t>(mj_stateSize(&model_, mjSTATE_INTEGRATION));
  std::size_t expected = size + own_heights_.size();
  for (const OwnPart& own : own_) expected += own.numbers.size();
  if (state.size() != expected) return false;
  // Numbers beyond mjMAXVAL would make MuJoCo go back to its default state. The comparison is false for NaN.
  if (!std::all_of(state.begin(), state.end(), [](double x) { return std::abs(x) <= mjMAXVAL; })) return false;
  mj_resetData(&model_, data_.get());
  auto from = state.begin() + static_cast<std::ptrdiff_t>(size);
  for (OwnPart& own : own_) {
    const auto end = from + static_cast<std::ptrdiff_t>(own.numbers.size());
    std::copy(from, end, own.numbers.begin());
    from = end;
  }
  std::transform(from, state.end(), own_heights_.begin(), [](double height) { return static_cast<float>(height); });
  mj_setState(&model_, data_.get(), state.data(), mjSTATE_INTEGRATION);
  mj_step1(&model_, data_.get());  // what step() expects to find done
  return true;
}

}  // namespace troupe::envs
