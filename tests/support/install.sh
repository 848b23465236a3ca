#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Install what a bare Debian 12 lacks for a job, and nothing that is there.
#
#   install.sh [--no-install] JOB...
#
#   demo   build the libraries, the command and the demo, and run them
#   test   what tests/run needs
#   full   what tests/run --full needs on top (clang, cross compilers, qemu,
#          RabbitMQ, PostgreSQL, node and npm)
#
# --no-install only lists what is missing and fails if anything is.  Used by
# tests/run, .ci/run and the demo; apt-get with sudo if you are not root.
set -euo pipefail

demo=(gcc libc6-dev cmake ninja-build pkg-config python3 openssl sqlite3
    libsqlite3-dev libpaho-mqtt-dev libssl-dev uuid-dev libinih-dev
    mosquitto mosquitto-clients)
test=(git g++ libcmocka-dev libcjson-dev libmosquitto-dev clang-format-14
    faketime strace procps iproute2 nftables e2fsprogs xfsprogs mount util-linux
    python3-paho-mqtt)
full=(clang-14 clang-tidy-14 libclang-rt-14-dev llvm-14 valgrind
    gcc-aarch64-linux-gnu
    gcc-arm-linux-gnueabihf libc6-dev-arm64-cross libc6-dev-armhf-cross
    qemu-user-static rabbitmq-server make postgresql python3-psycopg2)
# Debian's, unless they are there from elsewhere.
command -v node >/dev/null || full+=(nodejs)
command -v npm >/dev/null || full+=(npm)

usage() {
    echo "usage: install.sh [--no-install] demo|test|full ..." >&2
    exit 2
}

install=yes
wanted=()
for word; do
    case $word in
    --no-install) install=no ;;
    demo) wanted+=("${demo[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    full) wanted+=("${full[@]}") ;;
    *) usage ;;
    esac
done
[ ${#wanted[@]} -gt 0 ] || usage

if ! command -v dpkg-query >/dev/null; then
    echo "install.sh: not a Debian; cannot check for: ${wanted[*]}" >&2
    exit 0
fi

is_installed() {
    local state
    state=$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) || true
    [ "$state" = installed ]
}

missing=()
for package in "${wanted[@]}"; do
    is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$install" = no ]; then
    echo "install.sh: missing: ${missing[*]}" >&2
    exit 1
fi

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)

# Installing a broker would start it on its standard port.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod 755 $policy
    trap '"${as_root[@]}" rm -f $policy' EXIT
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" </dev/null
}
echo "install.sh: installing ${missing[*]}"
apt update
apt install --no-install-recommends "${missing[@]}"
