# What the build needs, one line each. `./troupe` installs all of it (tools/bootstrap.sh).
include(GoogleTest)
find_package(Threads REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(tomlplusplus 3.3 REQUIRED)
find_package(Eigen3 3.4 REQUIRED)
find_package(CapnProto 0.9 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(GTest 1.12 REQUIRED)
find_package(benchmark 1.7 REQUIRED)
find_package(CAF REQUIRED)
# oneDNN is optional: without it Eigen multiplies matrices, and the program says so at start.
find_package(OneDNN QUIET)
