#pragma once
// What the cameras of an environment see, as part of the observation or all of it.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/envs/environment.hpp>
#include <troupe/envs/wrapper.hpp>

namespace troupe::envs {

struct PixelsOptions {
  int height = 84;  ///< pixels
  int width = 84;   ///< pixels
  /// Names or indices, as of RenderOptions::camera.
  std::vector<std::string> cameras = {"0"};
  bool keep_states = false;  ///< whether what the environment inside observes stays, before the pixels
  RenderProfile profile = RenderProfile::kDmControl;
};

/// A column uint8 [height, width, 3] for each camera. Of one camera it is called "pixels", as by dm_control's
/// pixels.Wrapper; of several each is called after its camera, "pixels_side", as that wrapper put around itself for
/// each camera would have it: an encoder for each view, or all of them concatenated, is the network's choice. Each step
/// and each reset draws all of them. Errors of the wrapping: kInvalidArgument on a camera that there is not or that is
/// there twice, and on a column that there is already.
Wrap pixels(const PixelsOptions& options);

}  // namespace troupe::envs
