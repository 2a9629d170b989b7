# What a program that links Troupe's libraries needs of its system, one line each: the package of CMake, the Debian
# package that has it, and what find_package() is asked for. The build includes this file, and so does an installed
# TroupeConfig.cmake: what is missing stands in TROUPE_MISSING by the names of the Debian packages.
set(TROUPE_MISSING "")
set(TROUPE_DEBIAN_PACKAGES "")

macro(troupe_needs package debian)
  find_package(${package} ${ARGN} QUIET)
  list(APPEND TROUPE_DEBIAN_PACKAGES ${debian})
  if(NOT ${package}_FOUND)
    list(APPEND TROUPE_MISSING ${debian})
  endif()
endmacro()

# Cap'n Proto's package file looks for libatomic with the C compiler, which a project in C++ alone has not enabled, and
# then makes every later check of that project link it. GCC always has it.
set(FOUND_LIBATOMIC TRUE)
set(troupe_required_libraries "${CMAKE_REQUIRED_LIBRARIES}")
troupe_needs(CapnProto libcapnp-dev 0.9)
set(CMAKE_REQUIRED_LIBRARIES "${troupe_required_libraries}")
unset(troupe_required_libraries)
unset(FOUND_LIBATOMIC)

troupe_needs(Threads libc6-dev)
troupe_needs(fmt libfmt-dev 9)
troupe_needs(spdlog libspdlog-dev 1.10)
troupe_needs(tomlplusplus libtomlplusplus-dev 3.3)
troupe_needs(ZLIB zlib1g-dev)
troupe_needs(PNG libpng-dev)
troupe_needs(JPEG libjpeg62-turbo-dev 62)  # which decodes parts of a picture and reduced sizes
troupe_needs(GIF libgif-dev 5.2)
troupe_needs(OpenSSL libssl-dev 3.0)
troupe_needs(CAF libcaf-dev)
troupe_needs(EGL libegl-dev)
troupe_needs(httplib libcpp-httplib-dev)
