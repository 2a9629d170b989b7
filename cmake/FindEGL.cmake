# libEGL, by which frames are drawn without a display. CMake's own FindOpenGL also asks for libOpenGL, which nothing here
# links. Defines EGL::EGL.
include(FindPackageHandleStandardArgs)
find_path(EGL_INCLUDE_DIR EGL/egl.h)
find_library(EGL_LIBRARY EGL)
find_package_handle_standard_args(EGL REQUIRED_VARS EGL_LIBRARY EGL_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libegl-dev")
if(EGL_FOUND AND NOT TARGET EGL::EGL)
  add_library(EGL::EGL UNKNOWN IMPORTED)
  set_target_properties(EGL::EGL PROPERTIES IMPORTED_LOCATION ${EGL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${EGL_INCLUDE_DIR})
endif()
