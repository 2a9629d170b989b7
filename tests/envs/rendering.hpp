#pragma once
// Whether this machine draws: tests of pictures are skipped, with the reason, where it has no OpenGL.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/envs/environment.hpp>

namespace troupe::envs::test {

/// Why this machine cannot draw; empty where it can.
inline const std::string& no_rendering() {
  static const std::string reason = [] {
    std::vector<std::uint8_t> pixel(3);
    const Status drawn = make_environment("pendulum-swingup", 0)
                             .value()
                             ->render({.height = 1, .width = 1, .profile = RenderProfile::kFast}, pixel);
    return !drawn.ok() && drawn.error().code == Code::kUnavailable ? drawn.error().message : "";
  }();
  return reason;
}

}  // namespace troupe::envs::test
