# SPDX-License-Identifier: MIT
# What Postbag links, as imported targets.  Used by our own build and,
# installed beside postbagConfig.cmake, by everyone who finds the package, so
# that no path of the build machine gets into the package.

macro(postbag_find_sqlite)
  if(NOT TARGET SQLite::SQLite3)
    find_package(SQLite3 3.37 REQUIRED)
    set_target_properties(SQLite::SQLite3 PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endmacro()

macro(postbag_find_threads)
  if(NOT TARGET Threads::Threads)
    set(THREADS_PREFER_PTHREAD_FLAG ON)
    find_package(Threads REQUIRED)
    set_target_properties(Threads::Threads PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endmacro()

# An imported target for a library that has no usable CMake package.
function(postbag_import target header library)
  if(TARGET ${target})
    return()
  endif()
  string(MAKE_C_IDENTIFIER "POSTBAG_${library}" name)
  find_path(${name}_INCLUDE_DIR ${header})
  find_library(${name}_LIBRARY ${library})
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "Postbag needs ${header} and the library ${library}; "
      "set ${name}_INCLUDE_DIR and ${name}_LIBRARY if they are elsewhere")
  endif()
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION "${${name}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
endfunction()

macro(postbag_find_uuid)
  postbag_import(postbag::uuid uuid/uuid.h uuid)
endmacro()

# Debian's CMake package of Paho misreports its version, so the header and the
# library are looked up by name.
macro(postbag_find_paho with_tls)
  if(${with_tls})
    if(NOT TARGET OpenSSL::SSL)
      find_package(OpenSSL 1.1.1 REQUIRED)
      set_target_properties(OpenSSL::SSL OpenSSL::Crypto
        PROPERTIES IMPORTED_GLOBAL TRUE)
    endif()
    postbag_import(postbag::mqtt MQTTAsync.h paho-mqtt3as)
  else()
    postbag_import(postbag::mqtt MQTTAsync.h paho-mqtt3a)
  endif()
endmacro()
