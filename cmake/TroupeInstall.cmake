# `cmake --install build/release --prefix DIR`: headers to include/troupe/, so that users include them as the tree does,
# the libraries and the program. Included after all targets.
include(GNUInstallDirs)
foreach(folder core messages transport envs data gpu replay collectives learner algorithms actors run)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/${folder} COMPONENT headers
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
endforeach()

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
install(TARGETS ${libraries} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries)
if(TARGET troupe)
  install(TARGETS troupe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
