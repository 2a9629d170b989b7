# What runs once or waits, or is compiled often, is compiled for short builds also where the rest is compiled for speed:
# tests, actors, commands, configurations and pages take three quarters of the time.
function(troupe_compiles_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Each source of CAF, GoogleTest or CLI11 costs seconds for its headers alone: 16 at once take less than half the time. An
# edit then recompiles 16, and a file may lean on what its neighbour includes, so daily work (`dev`) goes file by file.
# Sources with flags of their own stay alone. Files of one target need names that differ, also in anonymous namespaces:
# tests, which call many things alike, are fewer at once.
function(troupe_compiles_together target sources)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TROUPE_UNITY} UNITY_BUILD_BATCH_SIZE ${sources})
endfunction()

# troupe_library(NAME SOURCES ... LINK ... PRIVATE_LINK ...): the library of the folder NAME, troupe_NAME, which others
# link as Troupe::NAME. LINK lists what its headers need; PRIVATE_LINK what only its sources need.
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  # Whoever links an installed library needs no package that is headers alone.
  list(TRANSFORM ARG_PRIVATE_LINK REPLACE "^((CLI11|Eigen3|nlohmann_json)::.*)$" "$<BUILD_INTERFACE:\\1>")
  add_library(troupe_${name} STATIC ${ARG_SOURCES})
  add_library(Troupe::${name} ALIAS troupe_${name})
  set_target_properties(troupe_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(troupe_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(troupe_${name} PUBLIC cxx_std_20)
  target_link_libraries(troupe_${name} PUBLIC ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  troupe_compiles_together(troupe_${name} 16)
  set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES troupe_${name})
endfunction()

# Some tests ask Python packages whether they read what Troupe wrote; they find the interpreter in the environment
# variable TROUPE_TEST_PYTHON and are skipped, saying so, without one. `tools/python_env.sh test` makes it.
set(TROUPE_TEST_PYTHON "" CACHE FILEPATH "Interpreter of the Python environment of the tests; found by itself once made")
if(TROUPE_TESTS AND NOT EXISTS "${TROUPE_TEST_PYTHON}")
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/python_env.sh --find test
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(TROUPE_TEST_PYTHON "${found}" CACHE FILEPATH "" FORCE)
endif()

# troupe_test(NAME SOURCES ... LINK ... [LABELS slow] [CONFIGURATIONS Slow] [HAS_SLOW]): one GoogleTest program; each
# TEST is one ctest entry. With a configuration the program is one entry, run only where `ctest -C` asks for it. With
# HAS_SLOW that holds for those of its tests whose suites are called Slow...: they are one entry, NAME.slow.
function(troupe_test name)
  cmake_parse_arguments(ARG "HAS_SLOW" "TIMEOUT" "SOURCES;LINK;LABELS;CONFIGURATIONS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} test_paths GTest::gmock GTest::gtest_main)
  troupe_compiles_quickly(${name})
  troupe_compiles_together(${name} 8)
  set(properties TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT TROUPE_TEST_PYTHON=${TROUPE_TEST_PYTHON})
  if(ARG_LABELS)
    list(APPEND properties LABELS ${ARG_LABELS})
  endif()
  if(ARG_CONFIGURATIONS)
    add_test(NAME ${name} CONFIGURATIONS ${ARG_CONFIGURATIONS} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} TEST_FILTER -Slow* DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
  endif()
  if(ARG_HAS_SLOW)
    add_test(NAME ${name}.slow CONFIGURATIONS Slow COMMAND ${name} --gtest_filter=Slow*)
    set_tests_properties(${name}.slow PROPERTIES LABELS slow TIMEOUT 1800 ENVIRONMENT TROUPE_TEST_PYTHON=${TROUPE_TEST_PYTHON})
  endif()
endfunction()

# troupe_bench(NAME SOURCES ... LINK ...): one google-benchmark program. `./troupe bench` builds those that it runs, so
# the tests need not wait for all of them; daily work (`dev`) compiles them all.
function(troupe_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} benchmark::benchmark)
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ${TROUPE_UNITY})
endfunction()
