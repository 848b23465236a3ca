# SPDX-License-Identifier: MIT
# Build choices for a PC, as an initial cache:
#   cmake -C boards/host/board.cmake -S . -B build/host

# What is measured here should be what is shipped.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
# One file to copy; SQLite, Paho and libuuid stay the system's.
set(BUILD_SHARED_LIBS OFF CACHE BOOL "")
# The demo asks the command for the age of the oldest message.
set(POSTBAG_TOOLS ON CACHE BOOL "")
# The tests need more packages; tests/run builds them in folders of their own.
set(POSTBAG_TESTS OFF CACHE BOOL "")
