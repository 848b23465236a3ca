# SPDX-License-Identifier: MIT
# 64-bit Raspberry Pi OS (Pi 3 and later) with Debian's cross compiler
# (package gcc-aarch64-linux-gnu).  Give -DCMAKE_SYSROOT: a folder that holds
# the board's libraries; tests/cross/sysroot makes one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
