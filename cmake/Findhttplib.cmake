# cpp-httplib as Debian has it: a shared library, whose one header must be seen with the options that it was built with.
# Defines httplib::httplib.
include(FindPackageHandleStandardArgs)
find_path(httplib_INCLUDE_DIR httplib.h)
find_library(httplib_LIBRARY cpp-httplib)
find_package_handle_standard_args(httplib REQUIRED_VARS httplib_LIBRARY httplib_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libcpp-httplib-dev")
if(httplib_FOUND AND NOT TARGET httplib::httplib)
  add_library(httplib::httplib UNKNOWN IMPORTED)
  set_target_properties(httplib::httplib PROPERTIES IMPORTED_LOCATION ${httplib_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${httplib_INCLUDE_DIR}
                        INTERFACE_COMPILE_DEFINITIONS CPPHTTPLIB_OPENSSL_SUPPORT)
  target_link_libraries(httplib::httplib INTERFACE OpenSSL::SSL Threads::Threads)
endif()
