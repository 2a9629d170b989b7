#pragma once
// Where a user's programs keep what they have found out and can find out again.
#include <string>
#include <string_view>

namespace troupe {

/// $XDG_CACHE_HOME or $HOME/.cache, and there troupe/NAME; "" where neither is an absolute path to a folder of this
/// user's own (a program run by sudo leaves nothing of root's in somebody's home). Nothing is made.
std::string cache_folder(std::string_view name);

}  // namespace troupe
