#pragma once
// What domains do to the source of their model before it is compiled (ModelChanges::source), where dm_control edits the
// XML: find elements by name, remove them, add others. Models are pinned by hash, so what is asked for exists.
#include <mujoco/mujoco.h>

#include <string_view>

namespace troupe::envs {

mjsElement* find_element(mjSpec& source, mjtObj type, std::string_view name);
mjsBody& find_body(mjSpec& source, std::string_view name);
mjsGeom& find_geom(mjSpec& source, std::string_view name);
mjsCamera& find_camera(mjSpec& source, std::string_view name);
/// A class of defaults, which mjs_addBody() and its like take.
const mjsDefault* find_class(mjSpec& source, std::string_view name);

/// Removes an element with all that is in it.
void remove_element(mjSpec& source, mjsElement* element);

/// Writes three numbers.
inline void set_vector(double* to, double x, double y, double z) {
  to[0] = x;
  to[1] = y;
  to[2] = z;
}

}  // namespace troupe::envs
