# Read by cpack before it packs.
find_program(shlibdeps dpkg-shlibdeps)
if(NOT shlibdeps)
  message(FATAL_ERROR "dpkg-shlibdeps is missing, which says what the package depends on: apt-get install dpkg-dev")
endif()
