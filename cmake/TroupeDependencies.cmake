# What the build needs. `./troupe` installs all of it (tools/bootstrap.sh).
# Visible where the tree is a part of another project too: whoever links Troupe::troupe there links these.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
include(TroupePackages)
set(TROUPE_LINKED_PACKAGES ${TROUPE_DEBIAN_PACKAGES})  # what others need too; the rest is for this build alone
troupe_needs(CLI11 libcli11-dev 2.1)
troupe_needs(Eigen3 libeigen3-dev 3.4)
troupe_needs(nlohmann_json nlohmann-json3-dev 3.11)
if(TROUPE_TESTS)
  include(GoogleTest)
  troupe_needs(GTest libgtest-dev 1.12)
  troupe_needs(benchmark libbenchmark-dev 1.7)
endif()
if(TROUPE_MISSING)
  list(JOIN TROUPE_MISSING " " missing)
  message(FATAL_ERROR "Debian packages are missing, or too old: apt-get install ${missing}")
endif()

# Where ./troupe unpacks what Debian has not, or has too old.
if(DEFINED ENV{XDG_CACHE_HOME})
  set(TROUPE_CACHE $ENV{XDG_CACHE_HOME}/troupe)
else()
  set(TROUPE_CACHE $ENV{HOME}/.cache/troupe)
endif()
# oneDNN is optional: without it Eigen multiplies matrices, and the program says so at start.
find_package(OneDNN QUIET)
find_package(MuJoCo REQUIRED)
# What draws the charts of the page: one script and its style.
set(TROUPE_UPLOT_DIR ${TROUPE_CACHE}/uplot-1.6.31 CACHE PATH "Unpacked uPlot 1.6.31")
if(NOT EXISTS ${TROUPE_UPLOT_DIR}/uplot.iife.min.js)
  message(FATAL_ERROR "uPlot is missing: tools/bootstrap.sh fetched, or point TROUPE_UPLOT_DIR at it")
endif()
