# oneDNN 3.x from its wheels, as `./troupe` unpacks them into the user's cache, or wherever TROUPE_ONEDNN_DIR says
# (include/, lib/). Debian's is 2.6, which has another C++ interface and takes twice the time with matrix tiles (AMX).
# Defines OneDNN::dnnl.
include(FindPackageHandleStandardArgs)
set(TROUPE_ONEDNN_DIR ${TROUPE_CACHE}/onednn-3.2 CACHE PATH "Unpacked oneDNN 3.2")
find_path(OneDNN_3_INCLUDE_DIR oneapi/dnnl/dnnl.hpp PATHS ${TROUPE_ONEDNN_DIR}/include NO_DEFAULT_PATH)
find_file(OneDNN_3_LIBRARY libdnnl.so.3 PATHS ${TROUPE_ONEDNN_DIR}/lib NO_DEFAULT_PATH)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_3_LIBRARY OneDNN_3_INCLUDE_DIR)
if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
  add_library(OneDNN::dnnl SHARED IMPORTED)
  set_target_properties(OneDNN::dnnl PROPERTIES IMPORTED_LOCATION ${OneDNN_3_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_3_INCLUDE_DIR})
endif()
