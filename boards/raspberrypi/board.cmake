# SPDX-License-Identifier: MIT
# Build choices for Raspberry Pi OS, as an initial cache:
#   cmake -C boards/raspberrypi/board.cmake --toolchain ... -B build/pi

# The slowest Pi relays far more than an uplink carries; -Os buys nothing here.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
# SQLite, OpenSSL and libuuid are part of the OS image, Paho is one package:
# share them instead of carrying copies.  Our own code is linked in, so that a
# new firmware is one file.
set(BUILD_SHARED_LIBS OFF CACHE BOOL "")
# The uplink leaves the house.
set(POSTBAG_WITH_TLS ON CACHE BOOL "")
# Run on the build machine, or under qemu by tests/cross; not shipped.
set(POSTBAG_TESTS OFF CACHE BOOL "")
