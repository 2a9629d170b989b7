# With TROUPE_CHECK_HEADERS (the dev preset), the build compiles every public header by itself, so that a header that
# leans on the includes of its includer fails here and not at a user's.
option(TROUPE_CHECK_HEADERS "Compile each public header by itself" OFF)
if(TROUPE_CHECK_HEADERS)
  set(checks "")
  foreach(folder core messages transport envs data gpu replay collectives learner algorithms actors run apps)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/${folder}/*.hpp)
    list(FILTER headers EXCLUDE REGEX "/detail/")  # private to their folder, and to its include paths
    list(FILTER headers EXCLUDE REGEX "^gpu/(kernels|cudnn)/")  # the plug-ins', for nvcc
    foreach(header IN LISTS headers)
      set(check ${CMAKE_BINARY_DIR}/header_checks/${header}.cpp)
      file(CONFIGURE OUTPUT ${check} CONTENT "#include <troupe/${header}>\n#include <troupe/${header}>\n")
      list(APPEND checks ${check})
    endforeach()
  endforeach()
  add_library(troupe_header_checks OBJECT ${checks})
  # Every library, so that the include folders of what its headers need are known.
  get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
  target_link_libraries(troupe_header_checks PRIVATE ${libraries})
endif()
