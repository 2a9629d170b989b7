# Toolchain for aarch64 on Debian's x86-64 (package g++-aarch64-linux-gnu), for static libraries: headers are those of this
# machine's packages, which are the same on both but for a few generated ones, and nothing is linked.
#   cmake --toolchain cmake/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_PREFIX_PATH /usr/lib/x86_64-linux-gnu/cmake)
set(CMAKE_LIBRARY_PATH /usr/lib/x86_64-linux-gnu)
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include/x86_64-linux-gnu")
set(CMAKE_CXX_FLAGS_INIT "-idirafter /usr/include/x86_64-linux-gnu")
