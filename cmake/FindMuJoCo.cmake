# MuJoCo from its Python wheel and dm_control's model files, as `./troupe` unpacks them into the user's cache.
# The exact version matters: another one computes other bits, and the parity tests say so.
# Defines MuJoCo::mujoco. Inputs: TROUPE_MUJOCO_DIR (include/mujoco/, libmujoco.so.3.17.0) and TROUPE_DM_CONTROL_DIR
# (suite/*.xml, suite/dog_assets/*); both have defaults.
include(FindPackageHandleStandardArgs)
set(MuJoCo_VERSION 3.17.0)
set(TROUPE_MUJOCO_DIR ${TROUPE_CACHE}/mujoco-${MuJoCo_VERSION} CACHE PATH "Unpacked MuJoCo ${MuJoCo_VERSION}")
set(TROUPE_DM_CONTROL_DIR ${TROUPE_CACHE}/dm_control-1.0.50 CACHE PATH "Unpacked dm_control 1.0.50")

find_path(MuJoCo_INCLUDE_DIR mujoco/mujoco.h PATHS ${TROUPE_MUJOCO_DIR}/include NO_DEFAULT_PATH)
find_file(MuJoCo_LIBRARY libmujoco.so.${MuJoCo_VERSION} PATHS ${TROUPE_MUJOCO_DIR} NO_DEFAULT_PATH)
find_path(DmControl_MODEL_DIR suite/dog_assets/dog_skin.skn PATHS ${TROUPE_DM_CONTROL_DIR} NO_DEFAULT_PATH)
find_package_handle_standard_args(MuJoCo
  REQUIRED_VARS MuJoCo_LIBRARY MuJoCo_INCLUDE_DIR DmControl_MODEL_DIR
  VERSION_VAR MuJoCo_VERSION
  REASON_FAILURE_MESSAGE "run ./troupe, which fetches both, or set TROUPE_MUJOCO_DIR and TROUPE_DM_CONTROL_DIR")
if(MuJoCo_FOUND AND NOT TARGET MuJoCo::mujoco)
  add_library(MuJoCo::mujoco SHARED IMPORTED)
  set_target_properties(MuJoCo::mujoco PROPERTIES IMPORTED_LOCATION ${MuJoCo_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${MuJoCo_INCLUDE_DIR})
endif()
