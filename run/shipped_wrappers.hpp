#pragma once
// The wrappers of envs/wrappers as entries of the registry, with their keys: what a configuration's `wrappers` can name
// before a user has added any.
#include <troupe/run/registry.hpp>

namespace troupe {

void add_shipped_wrappers(Registry& registry);

}  // namespace troupe
