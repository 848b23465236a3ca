/* SPDX-License-Identifier: MIT */
/*
 * A port without time: the test moves the clocks, random numbers come from a
 * seed, and each function fails when told to.  Locks and files are the Linux
 * port's, so that two owners exclude each other as two processes do.  One
 * thread.
 */
#ifndef POSTBAG_TEST_SIM_PORT_H
#define POSTBAG_TEST_SIM_PORT_H

#include "postbag/port.h"

/* What can fail; `calls` and `fails` are indexed by it. */
enum sim_call {
    SIM_BOOT_ID,
    SIM_RANDOM,
    SIM_UUID,
    SIM_WAKE_NEW,
    SIM_WAKE_WATCH,
    SIM_WAKE,
    SIM_GATE_NEW,
    SIM_GATE_ENTER,
    SIM_LOCK_FILE,
    SIM_REPLACE_FILE,
    SIM_STORAGE_CHECK,
    SIM_READ_FILE,
    SIM_RESERVE_PAGES,
    SIM_ROOM,
    SIM_MACHINE_ID,
    SIM_FILE_ID,
    SIM_CALLS
};

struct sim_port {
    struct postbag_port port; /* what the code under test gets */
    int64_t wall_ms, mono_us;
    uint8_t boot;    /* each byte of the boot id */
    uint8_t machine; /* likewise; 0: it has none */
    uint64_t file;   /* number of each file; 0: the real one */
    uint64_t seed;   /* state of the generator */
    /* random bytes are all this instead; -1: from the seed */
    int random_byte;
    int fails[SIM_CALLS];      /* the error to return; 0: work */
    unsigned calls[SIM_CALLS]; /* made so far, failed ones too */
    /* asked at each call, if it is set: the error to return, or 0 */
    int (*decide)(void *ctx, enum sim_call call);
    void *decide_ctx;
    int open_gates;           /* held now, of all gates */
    struct postbag_room room; /* 1 GiB of 2 */
    /* called once, by the next gate_enter: what happens in between */
    void (*at_gate)(void *ctx);
    void *at_gate_ctx;
    char watched[160]; /* path of the last wake_watch */
    unsigned is_woken; /* wake() was called since the last look */
};

/* 2027-01-15, one minute after boot. */
void sim_port_init(struct sim_port *s);
/* Both clocks. */
void sim_pass_ms(struct sim_port *s, int64_t ms);

#endif
