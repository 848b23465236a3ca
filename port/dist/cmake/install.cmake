# SPDX-License-Identifier: MIT
# What cmake --install puts where: libraries, headers, the command, and the
# packages for find_package and pkg-config.
include(CMakePackageConfigHelpers)

set(postbag_installed postbag postbag_linux)
set(POSTBAG_PC_LIBS "-lpostbag_linux -lpostbag")
set(POSTBAG_PC_LIBS_PRIVATE "-pthread")
set(postbag_header_filter PATTERN "*.h")
if(POSTBAG_WITH_PAHO)
  list(APPEND postbag_installed postbag_paho)
  set(POSTBAG_PC_LIBS "-lpostbag_paho ${POSTBAG_PC_LIBS}")
  get_target_property(location postbag::mqtt IMPORTED_LOCATION)
  get_filename_component(name ${location} NAME_WE)
  string(REGEX REPLACE "^lib" "-l" name ${name})
  set(POSTBAG_PC_LIBS_PRIVATE "${name} ${POSTBAG_PC_LIBS_PRIVATE}")
else()
  list(APPEND postbag_header_filter PATTERN paho.h EXCLUDE)
endif()
set(POSTBAG_PC_REQUIRES "sqlite3 >= 3.37")
set(POSTBAG_PC_REQUIRES_PRIVATE "uuid")
if(POSTBAG_WITH_PAHO AND POSTBAG_WITH_TLS)
  string(APPEND POSTBAG_PC_REQUIRES_PRIVATE ", libssl >= 1.1.1, libcrypto")
endif()
if(NOT BUILD_SHARED_LIBS)
  # There is no shared library to find the rest by itself, so that a plain
  # pkg-config --libs, without --static, gives all.
  string(APPEND POSTBAG_PC_REQUIRES ", ${POSTBAG_PC_REQUIRES_PRIVATE}")
  string(APPEND POSTBAG_PC_LIBS " ${POSTBAG_PC_LIBS_PRIVATE}")
  set(POSTBAG_PC_REQUIRES_PRIVATE "")
  set(POSTBAG_PC_LIBS_PRIVATE "")
endif()

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/postbag)
install(TARGETS ${postbag_installed} EXPORT postbagTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/postbag
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING ${postbag_header_filter})
install(EXPORT postbagTargets NAMESPACE postbag:: DESTINATION ${config_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/postbagConfig.cmake.in
  ${PROJECT_BINARY_DIR}/postbagConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/postbagConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/postbagConfig.cmake
  ${PROJECT_BINARY_DIR}/postbagConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/postbagDeps.cmake DESTINATION ${config_dir})

# The way from the folder of postbag.pc back to the prefix, so that a tree that
# is moved or staged still works.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH POSTBAG_PC_PREFIX
  ${CMAKE_INSTALL_PREFIX}/${pc_dir} ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/../postbag.pc.in
  ${PROJECT_BINARY_DIR}/postbag.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/postbag.pc DESTINATION ${pc_dir})
