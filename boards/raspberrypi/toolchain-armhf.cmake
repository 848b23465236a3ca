# SPDX-License-Identifier: MIT
# 32-bit Raspberry Pi OS on an ARMv7 (Pi 2 and later; not Pi 1 and Zero, which
# are ARMv6) with Debian's cross compiler (package gcc-arm-linux-gnueabihf).
# Give -DCMAKE_SYSROOT: a folder that holds the board's libraries;
# tests/cross/sysroot makes one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE arm-linux-gnueabihf)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
