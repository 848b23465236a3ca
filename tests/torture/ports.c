/* SPDX-License-Identifier: MIT */
/* Each function of the port and of the transport fails in its turn. */
#include "scene.h"

#define PORT(call_, code_) \
    { \
        .name = #call_ " " #code_, .group = FUSE_PORT, .call = call_, \
        .code = POSTBAG_##code_ \
    }
#define TRANSPORT(call_, code_) \
    { \
        .name = #call_ " " #code_, .group = FUSE_TRANSPORT, .call = call_, \
        .code = POSTBAG_##code_ \
    }

int main(int argc, char **argv)
{
    static const struct blow blows[] = {PORT(SIM_BOOT_ID, EIO),
        PORT(SIM_RANDOM, EIO), PORT(SIM_UUID, EIO), PORT(SIM_WAKE_NEW, ENOMEM),
        PORT(SIM_WAKE_WATCH, EIO), PORT(SIM_GATE_NEW, ENOMEM),
        PORT(SIM_GATE_ENTER, EBUSY), PORT(SIM_LOCK_FILE, EIO),
        PORT(SIM_LOCK_FILE, EBUSY), PORT(SIM_REPLACE_FILE, EIO),
        PORT(SIM_REPLACE_FILE, ENOSPC), PORT(SIM_STORAGE_CHECK, ESTORAGE),
        PORT(SIM_READ_FILE, EIO), PORT(SIM_RESERVE_PAGES, ENOSPC),
        PORT(SIM_RESERVE_PAGES, EIO), PORT(SIM_ROOM, EIO),
        PORT(SIM_MACHINE_ID, ENOTFOUND), PORT(SIM_MACHINE_ID, EIO),
        PORT(SIM_FILE_ID, EIO), PORT(FUSE_THREAD_START, EIO),
        TRANSPORT(FAKE_CONNECT, ELINK), TRANSPORT(FAKE_CONNECT, ENOMEM),
        TRANSPORT(FAKE_CONNECT, EINVAL), TRANSPORT(FAKE_CONNECT, ESTATE),
        TRANSPORT(FAKE_SEND, EAGAIN), TRANSPORT(FAKE_SEND, ELINK),
        TRANSPORT(FAKE_SEND, EINVAL), TRANSPORT(FAKE_SEND, ENOMEM),
        TRANSPORT(FAKE_SUBSCRIBE, ELINK), TRANSPORT(FAKE_SUBSCRIBE, ENOMEM),
        TRANSPORT(FAKE_CHECK, EINVAL)};

    (void)argc;
    return torture_main(
        argv + 1, "F16_port", blows, sizeof(blows) / sizeof(blows[0]));
}
