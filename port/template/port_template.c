/* SPDX-License-Identifier: MIT */
/*
 * The start of a port: every member of struct postbag_port, with its place to
 * FILL.  It compiles as it lies and fails as it lies: what is not filled
 * returns POSTBAG_EIO, so postbag_open says no instead of relaying badly.
 *
 * postbag/port.h is the contract, README.md one folder up the checklist.  The
 * members are in the order in which it pays to fill them.
 *
 * FILL: what this port keeps, who calls it, from which threads.
 */
#include "port_template.h"

/* ---- Time and chance ---- */

static int64_t wall_ms(void *ctx)
{
    (void)ctx;
    /* FILL: time since 1970 UTC in ms.  It may jump and may be wrong. */
    return 0;
}

static int64_t mono_us(void *ctx)
{
    (void)ctx;
    /* FILL: time since boot in us.  Never back, and on through suspend.  A
       32-bit tick counter wraps: extend it here, under a lock. */
    return 0;
}

static int boot_id(void *ctx, uint8_t out[16])
{
    (void)ctx;
    (void)out;
    /* FILL: 16 bytes that differ between two boots.  Random bytes drawn once
       at start do, if all processes of one boot get the same ones. */
    return POSTBAG_EIO;
}

static int random_bytes(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    (void)buf;
    (void)len;
    /* FILL: from the hardware or the kernel, never rand().  Wait for entropy:
       two devices that hand out the same bytes hand out the same ids. */
    return POSTBAG_EIO;
}

static int uuid(void *ctx, uint8_t out[16])
{
    int err = random_bytes(ctx, out, 16);

    if (err != POSTBAG_OK)
        return err;
    /* RFC 4122, 4.4: version 4, variant 10.  Right as it is. */
    out[6] = (uint8_t)((out[6] & 0x0f) | 0x40);
    out[8] = (uint8_t)((out[8] & 0x3f) | 0x80);
    return POSTBAG_OK;
}

/* ---- Waking ---- */

/* FILL: struct postbag_wake { ... }: a semaphore, an event flag, an eventfd */

static int wake_new(void *ctx, struct postbag_wake **out)
{
    (void)ctx;
    (void)out;
    /* FILL */
    return POSTBAG_EIO;
}

static void wake_free(void *ctx, struct postbag_wake *w)
{
    (void)ctx;
    (void)w;
    /* FILL: as free(), fine with NULL */
}

static void wake(void *ctx, struct postbag_wake *w)
{
    (void)ctx;
    (void)w;
    /* FILL: set it.  Any thread, never blocks, kept until the next wait. */
}

static unsigned wait_until(void *ctx, struct postbag_wake *w, int64_t until_us)
{
    (void)ctx;
    (void)w;
    (void)until_us;
    /* FILL: sleep until it is set (take it back, return POSTBAG_WOKEN) or
       mono_us reaches until_us (return 0, not a tick earlier).  INT64_MAX is
       a time like any other. */
    return 0;
}

/* ---- The gate ---- */

/* FILL: struct postbag_gate { ... }: a queue of waiters.  A plain mutex will
   not do: it lets a thread that leaves and enters again starve the others. */

static int gate_new(void *ctx, struct postbag_gate **out)
{
    (void)ctx;
    (void)out;
    /* FILL */
    return POSTBAG_EIO;
}

static void gate_free(void *ctx, struct postbag_gate *g)
{
    (void)ctx;
    (void)g;
    /* FILL: as free(), fine with NULL */
}

static int gate_enter(void *ctx, struct postbag_gate *g, int64_t until_us)
{
    (void)ctx;
    (void)g;
    (void)until_us;
    /* FILL: free: take it.  Held: queue up; at until_us leave the queue, with
       everybody else's place kept, and return POSTBAG_EBUSY. */
    return POSTBAG_EIO;
}

static void gate_leave(void *ctx, struct postbag_gate *g)
{
    (void)ctx;
    (void)g;
    /* FILL: hand it to the first in the queue, who may still sleep */
}

/* ---- Files ---- */

/* FILL: struct postbag_lock { ... } */

static int lock_file(void *ctx, const char *path, struct postbag_lock **out)
{
    (void)ctx;
    (void)path;
    (void)out;
    /* FILL: exclusive, at once or POSTBAG_EBUSY, also against this process;
       gone when the process dies.  The file itself stays. */
    return POSTBAG_EIO;
}

static void unlock_file(void *ctx, struct postbag_lock *l)
{
    (void)ctx;
    (void)l;
    /* FILL: as free(), fine with NULL */
}

static int replace_file(
    void *ctx, const char *path, const void *buf, size_t len)
{
    (void)ctx;
    (void)path;
    (void)buf;
    (void)len;
    /* FILL: write beside it, rename over it; make the last folder of path.
       A full disk is POSTBAG_ENOSPC, the rest POSTBAG_EIO. */
    return POSTBAG_EIO;
}

static int storage_check(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    /* FILL: POSTBAG_OK where SQLite's WAL works (shared memory and locks
       between processes), else POSTBAG_ESTORAGE */
    return POSTBAG_EIO;
}

/* ---- The table ---- */

/* FILL: optional members left out here are NULL:
   wake_watch    without it the engine polls (option poll_ms)
   thread_start  without both postbag_start answers POSTBAG_ESTATE and the
   thread_join   firmware calls postbag_step and postbag_work itself
   read_file     without one of these three a database that was copied, or an
   machine_id    older one that was put back, is not noticed
   file_id
   hook          for tests that stop the process at named points */
static const struct postbag_port template_port = {
    .struct_size = sizeof(template_port),
    /* FILL: .ctx, if your functions need something; they all get it */
    .wall_ms = wall_ms,
    .mono_us = mono_us,
    .boot_id = boot_id,
    .random = random_bytes,
    .uuid = uuid,
    .wake_new = wake_new,
    .wake_free = wake_free,
    .wake = wake,
    .wait = wait_until,
    .gate_new = gate_new,
    .gate_free = gate_free,
    .gate_enter = gate_enter,
    .gate_leave = gate_leave,
    .lock_file = lock_file,
    .unlock_file = unlock_file,
    .replace_file = replace_file,
    .storage_check = storage_check,
};

const struct postbag_port *postbag_template_port(void)
{
    return &template_port;
}
