# Debian's libcaf-dev 0.17 ships neither a CMake config nor a pkg-config file.
# Defines CAF::core, CAF::io and CAF::openssl.
include(FindPackageHandleStandardArgs)
find_path(CAF_INCLUDE_DIR caf/all.hpp)
foreach(part core io openssl)
  find_library(CAF_${part}_LIBRARY caf_${part})
endforeach()
find_package_handle_standard_args(CAF
  REQUIRED_VARS CAF_core_LIBRARY CAF_io_LIBRARY CAF_openssl_LIBRARY CAF_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libcaf-dev 0.17.6")
if(CAF_FOUND AND NOT TARGET CAF::core)
  foreach(part core io openssl)
    add_library(CAF::${part} UNKNOWN IMPORTED)
    set_target_properties(CAF::${part} PROPERTIES IMPORTED_LOCATION ${CAF_${part}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
  endforeach()
  target_link_libraries(CAF::core INTERFACE Threads::Threads)
  target_link_libraries(CAF::io INTERFACE CAF::core)
  target_link_libraries(CAF::openssl INTERFACE CAF::io)
endif()
