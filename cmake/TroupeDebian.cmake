# `cpack` in the build folder, once the program is built: two Debian packages, troupe (the program and what it opens) and
# troupe-dev (what find_package(Troupe) needs). What the first depends on is read from the programs by dpkg-shlibdeps.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "the Troupe maintainers <maintainers@troupe.example>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
# The program is packed as it was built, without every test and bench being built first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
# Says at once what dpkg-shlibdeps is part of, without which a package would depend on nothing.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/CheckShlibdeps.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME troupe)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Distributed reinforcement learning and GANs on actors
 One program that trains agents and replicas in a process, in several, and on many hosts.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
get_filename_component(mujoco ${MuJoCo_LIBRARY} DIRECTORY)
get_filename_component(onednn "${OneDNN_3_LIBRARY}" DIRECTORY)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${mujoco} ${onednn})
# What is opened by name: drivers that draw without a display, pictures of topologies, what the classifier learns from.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libegl-mesa0, libgl1-mesa-dri, graphviz, dataset-fashion-mnist")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME troupe-dev)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Headers and libraries for programs of one's own on Troupe
 find_package(Troupe) makes the target Troupe::troupe. Examples are in /usr/share/troupe/examples.")
list(JOIN TROUPE_LINKED_PACKAGES ", " needed)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "troupe (= ${PROJECT_VERSION}), g++, cmake, make, pkg-config, ${needed}")
include(CPack)
