# `cmake --install build/release --prefix DIR` (docs/installing.md), in two components of which each is a Debian package:
#   program      bin/troupe, the libraries that are not the system's, configurations and models
#   development  headers, schemas, static libraries, the examples, and what find_package(Troupe) reads
# Where things lie is the same everywhere, so that the prefix can be moved: programs know it relative to lib/troupe, from
# where they have loaded their libraries (core/installation.hpp).
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
add_library(troupe_all INTERFACE)  # by one name, here and installed
add_library(Troupe::troupe ALIAS troupe_all)
set_target_properties(troupe_all PROPERTIES EXPORT_NAME troupe)
target_link_libraries(troupe_all INTERFACE ${libraries})

# ---- program ----
# troupe_shares(NAME FOLDER PATTERN...): share/troupe/NAME, in this build a link to FOLDER and in an installation a copy
# of the files that match.
function(troupe_shares name folder)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/troupe)
  file(CREATE_LINK ${folder} ${PROJECT_BINARY_DIR}/share/troupe/${name} SYMBOLIC)
  if(PROJECT_IS_TOP_LEVEL)
    list(TRANSFORM ARGN PREPEND "PATTERN;" OUTPUT_VARIABLE matching)
    install(DIRECTORY ${folder}/ DESTINATION share/troupe/${name} COMPONENT program FILES_MATCHING ${matching})
  endif()
endfunction()
troupe_shares(configs ${PROJECT_SOURCE_DIR}/apps/configs "*.toml")
troupe_shares(dm_control ${DmControl_MODEL_DIR} "*.xml" "*.stl" "*.skn" "*.png")
if(NOT PROJECT_IS_TOP_LEVEL)  # the other project says what it installs
  return()
endif()

install(TARGETS troupe RUNTIME DESTINATION bin COMPONENT program)
set_target_properties(troupe PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/troupe")
foreach(library ${MuJoCo_LIBRARY} ${OneDNN_3_LIBRARY})
  if(library)
    get_filename_component(name ${library} NAME)
    get_filename_component(file ${library} REALPATH)
    install(PROGRAMS ${file} RENAME ${name} DESTINATION lib/troupe COMPONENT program)
  endif()
endforeach()
foreach(plugin troupe_cuda troupe_cudnn)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION lib/troupe COMPONENT program)
  endif()
endforeach()
install(FILES LICENSE cmake/copyright DESTINATION share/doc/troupe COMPONENT program)

# ---- development ----
foreach(header IN LISTS TROUPE_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION include/troupe/${folder} COMPONENT development)
endforeach()
file(GLOB kernels CONFIGURE_DEPENDS gpu/kernels/*.hpp)  # for those of users' operations
install(FILES ${kernels} DESTINATION include/troupe/gpu/kernels COMPONENT development)
file(GLOB schemas CONFIGURE_DEPENDS messages/*.capnp)
install(FILES ${schemas} DESTINATION include/troupe/messages COMPONENT development)
file(GLOB examples CONFIGURE_DEPENDS examples/*.cpp examples/*.cu examples/*.toml)
install(FILES examples/CMakeLists.txt ${examples} DESTINATION share/troupe/examples COMPONENT development)
# Headers of envs/ include it, and a system has none or another version.
install(DIRECTORY ${MuJoCo_INCLUDE_DIR}/mujoco DESTINATION include/troupe/third_party COMPONENT development
        FILES_MATCHING PATTERN "*.h")

set(cmake_folder lib/cmake/Troupe)
install(TARGETS troupe_all ${libraries} EXPORT TroupeTargets ARCHIVE DESTINATION lib COMPONENT development)
install(EXPORT TroupeTargets NAMESPACE Troupe:: DESTINATION ${cmake_folder} COMPONENT development)
configure_file(cmake/TroupeConfig.cmake.in TroupeConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TroupeConfig.cmake ${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake
              cmake/TroupePackages.cmake cmake/TroupeCuda.cmake cmake/FindCAF.cmake cmake/FindEGL.cmake cmake/Findhttplib.cmake
        DESTINATION ${cmake_folder} COMPONENT development)
