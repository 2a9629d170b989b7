#pragma once
// Frames without a display: an OpenGL context on an EGL device (a GPU, or Mesa's software rasteriser), drawn by MuJoCo.
// MujocoEnvironment makes one when it is first asked for pixels.
#include <mujoco/mujoco.h>

#include <cstdint>
#include <memory>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::envs {

/// Draws one model at one size, from any of its cameras. Owns its context, which is current only during render(): a
/// renderer may be used from any thread, by one at a time, and several may draw on several threads at once. Mesa's
/// rasteriser has one thread a core for all of them together, or as many as LP_NUM_THREADS says; pixels do not depend
/// on it.
class Renderer {
 public:
  /// The offscreen buffer gets the size of the frame, which changes no pixel and is faster than the model's 640 x 480.
  /// `model` is borrowed for the call; options.camera is not looked at. Errors: kInvalidArgument on a size outside of
  /// 1..4096; kUnavailable when there is no EGL device or it gives no OpenGL context.
  static Result<std::unique_ptr<Renderer>> make(const mjModel& model, const RenderOptions& options);
  ~Renderer();
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

  const RenderOptions& options() const { return options_; }

  /// Takes the height fields of `model`, when they are others than when the renderer was made. Errors: kUnavailable.
  Status take_heights(const mjModel& model);

  /// MuJoCo's view of the whole model.
  static constexpr int kFreeCamera = -1;
  /// Draws what a camera of the model sees, or the free one. pixels: height x width x 3, RGB, top row first. `data` is
  /// not changed in any way that a step depends on. Errors: kInvalidArgument on a span of another length; kUnavailable.
  Status render(const mjModel& model, mjData& data, int camera_id, std::span<std::uint8_t> pixels);

 private:
  explicit Renderer(const RenderOptions& options) : options_(options) {}

  RenderOptions options_;
  // EGLDisplay and EGLContext; EGL's headers stay in the .cpp, since they bring X11's macros.
  void* egl_display_ = nullptr;
  void* egl_context_ = nullptr;
  mjrContext mujoco_context_{};
  mjvScene scene_{};
};

}  // namespace troupe::envs
