#include <troupe/envs/model_source.hpp>

#include <string>

#include <troupe/core/check.hpp>

namespace troupe::envs {

mjsElement* find_element(mjSpec& source, mjtObj type, std::string_view name) {
  mjsElement* element = mjs_findElement(&source, type, std::string(name).c_str());
  TROUPE_CHECK(element != nullptr, "model source has no {} named {}", mju_type2Str(type), name);
  return element;
}

mjsBody& find_body(mjSpec& source, std::string_view name) {
  return *mjs_asBody(find_element(source, mjOBJ_BODY, name));
}

mjsGeom& find_geom(mjSpec& source, std::string_view name) {
  return *mjs_asGeom(find_element(source, mjOBJ_GEOM, name));
}

mjsCamera& find_camera(mjSpec& source, std::string_view name) {
  return *mjs_asCamera(find_element(source, mjOBJ_CAMERA, name));
}

const mjsDefault* find_class(mjSpec& source, std::string_view name) {
  const mjsDefault* found = mjs_findDefault(&source, std::string(name).c_str());
  TROUPE_CHECK(found != nullptr, "model source has no class {}", name);
  return found;
}

void remove_element(mjSpec& source, mjsElement* element) {
  TROUPE_CHECK(mjs_delete(&source, element) == 0, "MuJoCo: {}", mjs_getError(&source));
}

}  // namespace troupe::envs
