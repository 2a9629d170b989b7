#include <troupe/envs/mujoco_environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include <troupe/core/check.hpp>

namespace troupe::envs {
namespace {

/// A view of the whole model, which every model has: dm_control's camera -1.
constexpr const char* kFreeCamera = "free";
/// Sizes and profiles that pixels are wanted in at the same time; one more takes the place of the one made first.
constexpr std::size_t kMostRenderers = 4;

std::vector<std::string> cameras_of(const mjModel& model) {
  std::vector<std::string> cameras;
  for (int camera = 0; camera < model.ncam; ++camera) {
    const char* const name = mj_id2name(&model, mjOBJ_CAMERA, camera);
    cameras.emplace_back(name == nullptr ? "" : name);
  }
  cameras.emplace_back(kFreeCamera);
  return cameras;
}

EnvSpec make_spec(const TaskEntry& entry, const mjModel& model, const Task& task, int sub_steps) {
  EnvSpec spec;
  spec.name = entry.name;
  spec.observation = task.observation_spec();
  std::vector<double> low, high;
  for (int i = 0; i < model.nu; ++i) {
    const bool limited = model.actuator_ctrllimited[i] != 0;
    low.push_back(limited ? model.actuator_ctrlrange[2 * i] : -mjMAXVAL);
    high.push_back(limited ? model.actuator_ctrlrange[2 * i + 1] : mjMAXVAL);
  }
  spec.action = ActionSpec::continuous(std::move(low), std::move(high));
  spec.control_dt = model.opt.timestep * sub_steps;
  // dm_control ends the episode at the first step whose count is not below this quotient.
  spec.episode_steps = static_cast<std::int64_t>(std::ceil(entry.time_limit_s / spec.control_dt));
  spec.cameras = cameras_of(model);
  return spec;
}

// save_state()'s bytes: this header, then the physics' numbers. Native byte order: checkpoints are for the same kind
// of machine, and the checksum around them is the checkpointer's.
struct SavedHeader {
  std::array<char, 8> magic;
  std::array<char, 48> name;
  std::uint32_t phase;
  std::uint32_t padding;
  std::int64_t step_count;
  NumpyRandom::State random;
  std::uint64_t numbers;  // doubles that follow
};
constexpr std::array<char, 8> kMagic = {'T', 'R', 'P', 'E', 'N', 'V', '0', '1'};
static_assert(std::is_trivially_copyable_v<SavedHeader>);

std::array<char, 48> padded(const std::string& name) {
  std::array<char, 48> result{};
  TROUPE_CHECK(name.size() < result.size(), "environment name {} is too long", name);
  std::copy(name.begin(), name.end(), result.begin());
  return result;
}

}  // namespace

Result<std::unique_ptr<Environment>> MujocoEnvironment::make(const TaskEntry& entry, Models models,
                                                             std::uint64_t seed) {
  TROUPE_ASSIGN(SharedModel model, models(Textures::kNone));
  return std::unique_ptr<Environment>(new MujocoEnvironment(entry, std::move(model), std::move(models), seed));
}

MujocoEnvironment::MujocoEnvironment(const TaskEntry& entry, SharedModel model, Models models, std::uint64_t seed)
    : models_(std::move(models)),
      task_(entry.make(*model)),
      physics_(std::move(model), task_->changes()),
      random_(seed),
      sub_steps_(static_cast<int>(std::lround(entry.control_dt_s / physics_.model().opt.timestep))) {
  spec_ = make_spec(entry, physics_.model(), *task_, sub_steps_);
  observation_.resize(static_cast<std::size_t>(spec_.observation_size()));
  task_->initialise_world(physics_, random_);
}

Result<TimeStep> MujocoEnvironment::reset(std::uint64_t seed, std::span<std::byte> observation) {
  random_ = NumpyRandom(seed);
  task_->initialise_world(physics_, random_);
  return reset(observation);
}

Result<TimeStep> MujocoEnvironment::reset(std::span<std::byte> observation) {
  phase_ = Phase::kNeedsReset;
  step_count_ = 0;
  physics_.reset();
  heights_have_changed();
  TROUPE_TRY(task_->initialise_episode(physics_, random_));
  TROUPE_TRY(physics_.forward_without_actuation());
  phase_ = Phase::kInEpisode;
  observe(observation);
  return TimeStep{.type = StepType::kFirst, .reward = 0, .discount = 1};
}

Result<TimeStep> MujocoEnvironment::step(std::span<const std::byte> action, std::span<std::byte> observation) {
  TROUPE_TRY(check_action(spec_, action));
  if (phase_ == Phase::kNeedsReset) {
    return Error{Code::kUnavailable, fmt::format("{}: step() outside of an episode, expected reset()", spec_.name)};
  }
  std::memcpy(physics_.data().ctrl, action.data(), action.size());
  if (Status stepped = physics_.step(sub_steps_); !stepped.ok()) {
    phase_ = Phase::kNeedsReset;
    return Error{stepped.error().code, fmt::format("{}: {}", spec_.name, stepped.error().message)};
  }
  ++step_count_;
  // dm_control asks the task only when the time limit has not ended the episode, with discount 1.
  const bool timeout = step_count_ >= spec_.episode_steps;
  const bool finished = !timeout && task_->finished(physics_);
  if (timeout || finished) phase_ = Phase::kNeedsReset;
  observe(observation);
  return TimeStep{.type = timeout || finished ? StepType::kLast : StepType::kMid,
                  .reward = task_->reward(physics_),
                  .discount = finished ? 0.0 : 1.0};
}

void MujocoEnvironment::observe(std::span<std::byte> observation) {
  const std::size_t bytes = observation_.size() * sizeof(double);
  TROUPE_CHECK(observation.size() == bytes, "{}: observation span has {} bytes, expected {}", spec_.name,
               observation.size(), bytes);
  task_->observe(physics_, observation_);
  std::memcpy(observation.data(), observation_.data(), bytes);
}

std::vector<std::byte> MujocoEnvironment::save_state() const {
  const std::vector<double> numbers = physics_.save_state();
  SavedHeader header{};
  header.magic = kMagic;
  header.name = padded(spec_.name);
  header.phase = static_cast<std::uint32_t>(phase_);
  header.step_count = step_count_;
  header.random = random_.state();
  header.numbers = numbers.size();
  std::vector<std::byte> bytes(sizeof(header) + numbers.size() * sizeof(double));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), numbers.data(), numbers.size() * sizeof(double));
  return bytes;
}

Status MujocoEnvironment::restore_state(std::span<const std::byte> state) {
  const auto corrupt = [&](std::string_view what) {
    return Error{Code::kCorrupt, fmt::format("{}: saved state: {}", spec_.name, what)};
  };
  SavedHeader header;
  if (state.size() < sizeof(header)) {
    return corrupt(fmt::format("got {} bytes, expected at least {}", state.size(), sizeof(header)));
  }
  std::memcpy(&header, state.data(), sizeof(header));
  if (header.magic != kMagic) return corrupt("not the bytes of an environment");
  if (header.name != padded(spec_.name)) return corrupt("of another environment");
  const std::size_t number_bytes = state.size() - sizeof(header);
  if (number_bytes % sizeof(double) != 0 || header.numbers != number_bytes / sizeof(double)) {
    return corrupt(fmt::format("{} bytes follow the header, which announces {} numbers", number_bytes, header.numbers));
  }
  if (header.phase > static_cast<std::uint32_t>(Phase::kInEpisode)) return corrupt("unknown phase");
  if (header.step_count < 0 || header.step_count > spec_.episode_steps) return corrupt("step count out of range");
  std::vector<double> numbers(header.numbers);
  std::memcpy(numbers.data(), state.data() + sizeof(header), number_bytes);
  NumpyRandom random = random_;
  if (!random.set_state(header.random)) return corrupt("not a state of the random stream");
  if (!physics_.restore_state(numbers)) return corrupt("not a state of this model");
  heights_have_changed();
  random_ = random;
  phase_ = static_cast<Phase>(header.phase);
  step_count_ = header.step_count;
  return {};
}

Result<Renderer*> MujocoEnvironment::renderer(const RenderOptions& options) {
  auto found = std::ranges::find_if(renderers_, [&](const Drawing& drawing) {
    const RenderOptions& other = drawing.renderer->options();
    return other.height == options.height && other.width == options.width && other.profile == options.profile;
  });
  if (found == renderers_.end()) {
    TROUPE_ASSIGN(const SharedModel textured, models_(Textures::kAll));
    TROUPE_ASSIGN(auto made, Renderer::make(*textured, options));
    if (renderers_.size() == kMostRenderers) renderers_.erase(renderers_.begin());
    renderers_.push_back({std::move(made), physics_.heights().empty()});
    found = std::prev(renderers_.end());
  }
  if (!found->has_heights) TROUPE_TRY(found->renderer->take_heights(physics_.model()));
  found->has_heights = true;
  return found->renderer.get();
}

Status MujocoEnvironment::render(const RenderOptions& options, std::span<std::uint8_t> pixels) {
  auto camera = camera_index(spec_, options.camera);
  if (!camera.ok()) return Error{camera.error().code, "render: " + camera.error().message};
  TROUPE_ASSIGN(Renderer* const draws, renderer(options));
  const auto& model = physics_.model();
  const int index = static_cast<int>(*camera);
  return draws->render(model, physics_.data(), index < model.ncam ? index : Renderer::kFreeCamera, pixels);
}

void MujocoEnvironment::heights_have_changed() {
  for (Drawing& drawing : renderers_) drawing.has_heights = physics_.heights().empty();
}

}  // namespace troupe::envs
