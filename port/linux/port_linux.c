/* SPDX-License-Identifier: MIT */
/* The table of this port.  Nothing else: each function stands in the file
 * that linux_port.h names. */
#include "linux_port.h"
#include "postbag/linux.h"

static const struct postbag_port linux_port = {
    .struct_size = sizeof(linux_port),
    .wall_ms = postbag__linux_wall_ms,
    .mono_us = postbag__linux_mono_us,
    .boot_id = postbag__linux_boot_id,
    .random = postbag__linux_random,
    .uuid = postbag__linux_uuid,
    .wake_new = postbag__linux_wake_new,
    .wake_free = postbag__linux_wake_free,
    .wake_watch = postbag__linux_wake_watch,
    .wake = postbag__linux_wake,
    .wait = postbag__linux_wait,
    .gate_new = postbag__linux_gate_new,
    .gate_free = postbag__linux_gate_free,
    .gate_enter = postbag__linux_gate_enter,
    .gate_leave = postbag__linux_gate_leave,
    .thread_start = postbag__linux_thread_start,
    .thread_join = postbag__linux_thread_join,
    .lock_file = postbag__linux_lock_file,
    .unlock_file = postbag__linux_unlock_file,
    .replace_file = postbag__linux_replace_file,
    .storage_check = postbag__linux_storage_check,
    .read_file = postbag__linux_read_file,
    .machine_id = postbag__linux_machine_id,
    .file_id = postbag__linux_file_id,
};

const struct postbag_port *postbag_linux_port(void)
{
    return &linux_port;
}
