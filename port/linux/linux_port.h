/* SPDX-License-Identifier: MIT */
/*
 * What the files of this port offer to its table (port_linux.c), one function
 * for each member of struct postbag_port, and the few helpers they share.
 * The comments of postbag/port.h say what each must do.
 *
 * The port keeps no state of its own: ctx is NULL and unused everywhere.
 */
#ifndef POSTBAG_LINUX_PORT_H
#define POSTBAG_LINUX_PORT_H

#include <errno.h>

#include "postbag/port.h"
#include "postbag/postbag.h"

/* clock.c */
int64_t postbag__linux_wall_ms(void *ctx);
int64_t postbag__linux_mono_us(void *ctx);
int postbag__linux_boot_id(void *ctx, uint8_t out[16]);
/* What is left until mono_us reaches until_us: 0 when it has, an hour at most,
   so that sums do not overflow.  The kernel sleeps by CLOCK_MONOTONIC, which
   stands still during suspend: sleep for this long, then ask again. */
int64_t postbag__linux_left_us(int64_t until_us);

/* random.c, uuid.c */
int postbag__linux_random(void *ctx, void *buf, size_t len);
int postbag__linux_uuid(void *ctx, uint8_t out[16]);

/* wake.c */
int postbag__linux_wake_new(void *ctx, struct postbag_wake **out);
void postbag__linux_wake_free(void *ctx, struct postbag_wake *w);
int postbag__linux_wake_watch(
    void *ctx, struct postbag_wake *w, const char *path);
void postbag__linux_wake(void *ctx, struct postbag_wake *w);
unsigned postbag__linux_wait(
    void *ctx, struct postbag_wake *w, int64_t until_us);

/* gate.c */
int postbag__linux_gate_new(void *ctx, struct postbag_gate **out);
void postbag__linux_gate_free(void *ctx, struct postbag_gate *g);
int postbag__linux_gate_enter(
    void *ctx, struct postbag_gate *g, int64_t until_us);
void postbag__linux_gate_leave(void *ctx, struct postbag_gate *g);

/* thread.c */
int postbag__linux_thread_start(void *ctx, struct postbag_thread **out,
    const char *name, int niceness, void (*run)(void *arg), void *arg);
void postbag__linux_thread_join(void *ctx, struct postbag_thread *t);

/* lock.c */
int postbag__linux_lock_file(
    void *ctx, const char *path, struct postbag_lock **out);
void postbag__linux_unlock_file(void *ctx, struct postbag_lock *l);

/* file.c */
int postbag__linux_replace_file(
    void *ctx, const char *path, const void *buf, size_t len);

/* identity.c */
int postbag__linux_read_file(
    void *ctx, const char *path, void *buf, size_t size, size_t *len_out);
int postbag__linux_machine_id(void *ctx, uint8_t out[16]);
int postbag__linux_file_id(void *ctx, const char *path, uint64_t *out);

/* storage.c */
int postbag__linux_storage_check(void *ctx, const char *path);

/* The error of ours for an errno that a call on files left. */
static inline int postbag__linux_error(int errnum)
{
    switch (errnum) {
    case ENOSPC:
    case EDQUOT:
        return POSTBAG_ENOSPC;
    case ENOMEM:
        return POSTBAG_ENOMEM;
    default:
        return POSTBAG_EIO;
    }
}

#endif
