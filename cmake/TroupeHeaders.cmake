# TROUPE_HEADERS: the public headers of all libraries, relative to the tree. They are installed, and with
# TROUPE_CHECK_HEADERS (the dev preset) the build compiles each by itself, so that a header that leans on the includes of
# its includer fails here and not at a user's.
get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
list(TRANSFORM libraries REPLACE "^troupe_(.*)$" "${PROJECT_SOURCE_DIR}/\\1/*.h" OUTPUT_VARIABLE c_headers)
list(TRANSFORM c_headers APPEND "pp" OUTPUT_VARIABLE cpp_headers)
file(GLOB_RECURSE TROUPE_HEADERS CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${c_headers} ${cpp_headers})
list(FILTER TROUPE_HEADERS EXCLUDE REGEX "/detail/")  # private to their folder, and to its include paths
list(FILTER TROUPE_HEADERS EXCLUDE REGEX "^gpu/(kernels|cudnn)/")  # the plug-ins', for nvcc

option(TROUPE_CHECK_HEADERS "Compile each public header by itself" OFF)
if(TROUPE_CHECK_HEADERS)
  set(checks "")
  foreach(header IN LISTS TROUPE_HEADERS)
    set(check ${PROJECT_BINARY_DIR}/header_checks/${header}.cpp)
    file(CONFIGURE OUTPUT ${check} CONTENT "#include <troupe/${header}>\n#include <troupe/${header}>\n")
    list(APPEND checks ${check})
  endforeach()
  add_library(troupe_header_checks OBJECT ${checks})
  # Every library, so that the include folders of what its headers need are known.
  target_link_libraries(troupe_header_checks PRIVATE ${libraries})
endif()
