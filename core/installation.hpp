#pragma once
// Where the files are that a program opens by name at run time: plug-ins, environment models, shipped configurations.
// Used by gpu, envs and run. An installation may be moved, and a user's own program lies anywhere, so nothing of it has
// a fixed path: a program that links Troupe has loaded MuJoCo from PREFIX/lib/troupe, and there is the prefix.
#include <filesystem>

namespace troupe {

struct Installation {
  std::filesystem::path libraries;  ///< PREFIX/lib/troupe, with the plug-ins; of a build, its lib/
  std::filesystem::path shared;     ///< PREFIX/share/troupe: configs/*.toml, dm_control/suite/*.xml
};

/// The installation that this program's libraries come from, or else the build that it was made by. Looks at the list
/// of loaded libraries at each call, which takes microseconds. The folders need not exist.
Installation installation();

}  // namespace troupe
