# troupe_cuda_library(NAME SOURCE...): a shared object that Troupe's programs open by themselves when they need it, with a
# copy of the CUDA runtime: Troupe's plug-ins, and kernels of operations of one's own (docs/adding_an_op.md). Whoever calls
# it has enabled CUDA as a language.
function(troupe_cuda_library name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static
    CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda>)
  target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:Troupe::core,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_options(${name} PRIVATE LINKER:-z,defs LINKER:--exclude-libs,ALL)
endfunction()

if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
