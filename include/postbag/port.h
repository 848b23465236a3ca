/* SPDX-License-Identifier: MIT */
/*
 * The port: all that Postbag asks of the system below it.  port/linux fills
 * it; port/template is the start of another; a simulation fills it with a
 * virtual clock.  A table of functions, so that two ports can live in one
 * process.
 *
 * Every function gets the table's ctx.  Unless stated otherwise it may be
 * called from any thread and returns POSTBAG_OK or a negative error.
 * Functions marked OPTIONAL may be NULL.
 */
#ifndef POSTBAG_PORT_H
#define POSTBAG_PORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct postbag_wake;
struct postbag_gate;
struct postbag_thread;
struct postbag_lock;

/* What ended a wait; bits. */
enum postbag_wake_reason {
    POSTBAG_WOKEN = 1,       /* wake() was called */
    POSTBAG_FILE_CHANGED = 2 /* a watched file was written, or may have been */
};

struct postbag_port {
    size_t struct_size;
    void *ctx;

    /* Time since 1970 UTC.  May jump: labels only, never a deadline. */
    int64_t (*wall_ms)(void *ctx);
    /* Time since boot.  Never goes back, counts suspend (CLOCK_BOOTTIME). */
    int64_t (*mono_us)(void *ctx);
    /* 16 bytes that differ between two boots of this machine. */
    int (*boot_id)(void *ctx, uint8_t out[16]);
    int (*random)(void *ctx, void *buf, size_t len);
    /* A random (version 4) UUID. */
    int (*uuid)(void *ctx, uint8_t out[16]);

    /* A wake is one waiting thread's alarm clock.  A wake() between two
       waits is not lost; several may melt into one. */
    int (*wake_new)(void *ctx, struct postbag_wake **out);
    void (*wake_free)(void *ctx, struct postbag_wake *w);
    /* OPTIONAL.  From now on writes to the file at path end a wait with
       POSTBAG_FILE_CHANGED, whoever writes.  A second call replaces the
       first.  The file need not exist yet.  Must not open the file: closing
       a descriptor of a database drops SQLite's locks.  An error means that
       the caller polls instead.  Not while a thread waits on w. */
    int (*wake_watch)(void *ctx, struct postbag_wake *w, const char *path);
    /* Never blocks. */
    void (*wake)(void *ctx, struct postbag_wake *w);
    /* Sleep until mono_us reaches until_us, or one of the reasons.  Returns
       the bits seen, 0 for the time.  One thread at a time per wake. */
    unsigned (*wait)(void *ctx, struct postbag_wake *w, int64_t until_us);

    /* A gate lets one holder in at a time, in the order of arrival, so that
       no thread that commits back to back starves the others. */
    int (*gate_new)(void *ctx, struct postbag_gate **out);
    void (*gate_free)(void *ctx, struct postbag_gate *g);
    /* POSTBAG_OK: you hold it; a free gate lets in at any time.
       POSTBAG_EBUSY: until_us has passed; you have lost your place. */
    int (*gate_enter)(void *ctx, struct postbag_gate *g, int64_t until_us);
    /* By any thread, for the holder. */
    void (*gate_leave)(void *ctx, struct postbag_gate *g);

    /* OPTIONAL, both: NULL for ports that only step.  niceness 0..19.  The
       thread has all signals blocked. */
    int (*thread_start)(void *ctx, struct postbag_thread **out,
        const char *name, int niceness, void (*run)(void *arg), void *arg);
    /* Waits for run to return; frees. */
    void (*thread_join)(void *ctx, struct postbag_thread *t);

    /* An exclusive lock on a small file of ours (never on a database).  Two
       holders exclude each other also within one process; the death of the
       process frees it.  POSTBAG_EBUSY: held by somebody else, at once. */
    int (*lock_file)(void *ctx, const char *path, struct postbag_lock **out);
    void (*unlock_file)(void *ctx, struct postbag_lock *l);
    /* Put this content at path in one step: readers see all or nothing.  Makes
       the last folder of path if it is missing.  Need not be durable. */
    int (*replace_file)(
        void *ctx, const char *path, const void *buf, size_t len);
    /* Can a WAL database live here (path of the file, which need not exist)?
       POSTBAG_ESTORAGE: no, a network file system. */
    int (*storage_check)(void *ctx, const char *path);
    /* OPTIONAL, these three; without them a copied database is not seen.
       The beginning of a small file of ours (never of a database), at most
       size bytes.  POSTBAG_ENOTFOUND: there is none. */
    int (*read_file)(
        void *ctx, const char *path, void *buf, size_t size, size_t *len_out);
    /* 16 bytes that differ between two machines and last.
       POSTBAG_ENOTFOUND: this one has none. */
    int (*machine_id)(void *ctx, uint8_t out[16]);
    /* A number of the file at path that a copy does not have and a new name
       does not change; not 0.  Must not open the file. */
    int (*file_id)(void *ctx, const char *path, uint64_t *out);
    /* OPTIONAL.  Tests stop the process at named points. */
    void (*hook)(void *ctx, const char *point);
};

#ifdef __cplusplus
}
#endif
#endif
