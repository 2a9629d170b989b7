#include <troupe/envs/renderer.hpp>

#define EGL_NO_X11
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <vector>

namespace troupe::envs {
namespace {

constexpr int kMaxSize = 4096;   // pixels a side
constexpr int kMaxGeoms = 1000;  // dm_control's least; the suite's models draw fewer than a hundred

Error egl_error(std::string_view call) {
  return Error{Code::kUnavailable, fmt::format("render: {} failed with EGL error 0x{:04x}", call, eglGetError())};
}

bool is_software(EGLDeviceEXT device) {
  const auto query = reinterpret_cast<PFNEGLQUERYDEVICESTRINGEXTPROC>(eglGetProcAddress("eglQueryDeviceStringEXT"));
  const char* const extensions = query == nullptr ? nullptr : query(device, EGL_EXTENSIONS);
  return extensions != nullptr && std::string_view(extensions).find("EGL_MESA_device_software") != std::string::npos;
}

/// The first EGL device that can be initialised, as dm_control chooses it; empty when there is none. Mesa's software
/// rasteriser draws one picture of a display at a time, whatever threads there are, so where it is the only device its
/// other display, without a device, comes too: two threads drew 65 pictures of cheetah-run a second by one, 88 by both
/// (two processors, 2026-11-28). EGL has no third one.
std::vector<EGLDisplay> open_displays() {
  const auto query_devices = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(eglGetProcAddress("eglQueryDevicesEXT"));
  const auto platform_display =
      reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(eglGetProcAddress("eglGetPlatformDisplayEXT"));
  if (query_devices == nullptr || platform_display == nullptr) return {};
  std::array<EGLDeviceEXT, 16> devices{};
  EGLint count = 0;
  if (query_devices(static_cast<EGLint>(devices.size()), devices.data(), &count) == EGL_FALSE) return {};
  std::vector<EGLDisplay> opened;
  const auto open = [&](EGLenum platform, void* of) {
    EGLDisplay display = platform_display(platform, of, nullptr);
    if (display != EGL_NO_DISPLAY && eglInitialize(display, nullptr, nullptr) == EGL_TRUE) opened.push_back(display);
  };
  for (std::size_t i = 0; i < static_cast<std::size_t>(count) && opened.empty(); ++i) {
    open(EGL_PLATFORM_DEVICE_EXT, devices[i]);
  }
  const bool only_software = count == 1 && is_software(devices[0]);
  if (only_software && !opened.empty()) open(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY);
  return opened;
}

/// Renderers take the displays in turn. They serve the whole process and stay open until its end, as EGL intends.
Result<EGLDisplay> next_display() {
  static const std::vector<EGLDisplay> displays = open_displays();
  static std::atomic<std::size_t> next{0};
  if (!displays.empty()) return displays[next++ % displays.size()];
  return Error{Code::kUnavailable,
               "render: no EGL device can be opened; without a GPU, Mesa's software rasteriser gives one (Debian "
               "packages libegl1, libegl-mesa0, libgl1-mesa-dri)"};
}

Result<EGLContext> make_context(EGLDisplay display) {
  constexpr std::array<EGLint, 17> kAttributes = {EGL_RED_SIZE,
                                                  8,
                                                  EGL_GREEN_SIZE,
                                                  8,
                                                  EGL_BLUE_SIZE,
                                                  8,
                                                  EGL_ALPHA_SIZE,
                                                  8,
                                                  EGL_DEPTH_SIZE,
                                                  24,
                                                  EGL_STENCIL_SIZE,
                                                  8,
                                                  EGL_SURFACE_TYPE,
                                                  EGL_PBUFFER_BIT,
                                                  EGL_RENDERABLE_TYPE,
                                                  EGL_OPENGL_BIT,
                                                  EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (eglChooseConfig(display, kAttributes.data(), &config, 1, &count) == EGL_FALSE || count < 1) {
    return egl_error("eglChooseConfig");
  }
  if (eglBindAPI(EGL_OPENGL_API) == EGL_FALSE) return egl_error("eglBindAPI");
  EGLContext context = eglCreateContext(display, config, EGL_NO_CONTEXT, nullptr);
  if (context == EGL_NO_CONTEXT) return egl_error("eglCreateContext");
  return context;
}

/// Makes a context current on this thread for a scope. Without a surface: MuJoCo draws into its own framebuffer.
class CurrentContext {
 public:
  CurrentContext(EGLDisplay display, EGLContext context)
      : display_(display),
        ok_(eglBindAPI(EGL_OPENGL_API) == EGL_TRUE &&
            eglMakeCurrent(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context) == EGL_TRUE) {}
  ~CurrentContext() { eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT); }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  bool ok() const { return ok_; }

 private:
  EGLDisplay display_;
  bool ok_;
};

}  // namespace

Result<std::unique_ptr<Renderer>> Renderer::make(const mjModel& model, const RenderOptions& options) {
  if (options.height < 1 || options.height > kMaxSize || options.width < 1 || options.width > kMaxSize) {
    return Error{Code::kInvalidArgument, fmt::format("render: size {} x {} (height x width), expected 1..{} each",
                                                     options.height, options.width, kMaxSize)};
  }
  std::unique_ptr<Renderer> renderer(new Renderer(options));
  TROUPE_ASSIGN(renderer->egl_display_, next_display());
  TROUPE_ASSIGN(renderer->egl_context_, make_context(renderer->egl_display_));
  const CurrentContext current(renderer->egl_display_, renderer->egl_context_);
  if (!current.ok()) return egl_error("eglMakeCurrent");

  mjModel sized = model;  // member by member: its arrays are shared, its visual settings are its own
  sized.vis.global.offheight = options.height;
  sized.vis.global.offwidth = options.width;
  if (options.profile == RenderProfile::kFast) {
    sized.vis.quality.offsamples = 0;
    sized.vis.quality.shadowsize = 0;
  }
  mjr_defaultContext(&renderer->mujoco_context_);
  mjr_makeContext(&sized, &renderer->mujoco_context_, mjFONTSCALE_150);
  mjr_setBuffer(mjFB_OFFSCREEN, &renderer->mujoco_context_);
  if (renderer->mujoco_context_.currentBuffer != mjFB_OFFSCREEN) {
    return Error{Code::kUnavailable, "render: the OpenGL implementation offers no framebuffer objects"};
  }
  mjv_defaultScene(&renderer->scene_);
  mjv_makeScene(&model, &renderer->scene_, kMaxGeoms);
  if (options.profile == RenderProfile::kFast) {
    renderer->scene_.flags[mjRND_SHADOW] = 0;
    renderer->scene_.flags[mjRND_REFLECTION] = 0;
  }
  return renderer;
}

Renderer::~Renderer() {
  if (egl_context_ == nullptr) return;
  {
    const CurrentContext current(egl_display_, egl_context_);
    if (current.ok()) mjr_freeContext(&mujoco_context_);
  }
  mjv_freeScene(&scene_);
  eglDestroyContext(egl_display_, egl_context_);
}

Status Renderer::take_heights(const mjModel& model) {
  const CurrentContext current(egl_display_, egl_context_);
  if (!current.ok()) return egl_error("eglMakeCurrent");
  for (int field = 0; field < model.nhfield; ++field) mjr_uploadHField(&model, &mujoco_context_, field);
  return {};
}

Status Renderer::render(const mjModel& model, mjData& data, int camera_id, std::span<std::uint8_t> pixels) {
  const auto row_bytes = static_cast<std::size_t>(options_.width) * 3;
  const std::size_t expected = row_bytes * static_cast<std::size_t>(options_.height);
  if (pixels.size() != expected) {
    return Error{Code::kInvalidArgument, fmt::format("render: got {} bytes for {} x {} x 3 pixels, expected {}",
                                                     pixels.size(), options_.height, options_.width, expected)};
  }
  const CurrentContext current(egl_display_, egl_context_);
  if (!current.ok()) return egl_error("eglMakeCurrent");

  mjvCamera camera;
  mjv_defaultCamera(&camera);
  camera.fixedcamid = camera_id;
  if (camera_id == kFreeCamera) {
    mjv_defaultFreeCamera(&model, &camera);
  } else {
    camera.type = mjCAMERA_FIXED;
  }
  mjvOption option;
  mjv_defaultOption(&option);
  option.flags[mjVIS_RANGEFINDER] = 0;  // dm_control's only change to the defaults
  mjv_updateScene(&model, &data, &option, nullptr, &camera, mjCAT_ALL, &scene_);

  const mjrRect frame = {0, 0, options_.width, options_.height};
  mjr_render(frame, &scene_, &mujoco_context_);
  mjr_readPixels(pixels.data(), nullptr, frame, &mujoco_context_);
  // OpenGL's first row is the lowest one.
  const auto height = static_cast<std::size_t>(options_.height);
  for (std::size_t row = 0; row < height / 2; ++row) {
    const auto top = pixels.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
    const auto bottom = pixels.begin() + static_cast<std::ptrdiff_t>((height - 1 - row) * row_bytes);
    std::swap_ranges(top, top + static_cast<std::ptrdiff_t>(row_bytes), bottom);
  }
  return {};
}

}  // namespace troupe::envs
