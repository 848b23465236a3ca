/* SPDX-License-Identifier: MIT */
/*
 * One engine as firmware runs it, but on the virtual clock (sim_port.h), the
 * scripted transport (fake_transport.h) and a real database file.  No real
 * time passes.
 */
#ifndef POSTBAG_TEST_RELAY_H
#define POSTBAG_TEST_RELAY_H

#include "engine.h"
#include "fake_transport.h"
#include "sim_port.h"
#include "tempdb.h"

/* What several relays of one test share. */
struct world {
    struct tempdb t;
    struct sim_port sim;
};

void world_make(struct world *w);
void world_remove(struct world *w);

struct relay {
    struct world *world;
    struct postbag_config options; /* set what you want before relay_open */
    struct postbag_config config;  /* complete */
    uint32_t window; /* 0: as in options; also below that option's minimum */
    struct consumers consumers; /* none */
    struct engine e;
    struct fake_transport *out;
    int is_open;
    int64_t next_us; /* as the last step said */
    int err;         /* of the last step */
    unsigned steps;
    char log[1600];  /* the last lines, newest last */
    unsigned errors; /* lines of level ERROR */
};

/* Options of a new one: the defaults, run_dir "none". */
void relay_init(struct relay *r, struct world *w);
/* Must succeed; the transport is r->out. */
void relay_open(struct relay *r);
/* Must fail: the error, and *why.  The transport is destroyed with it; r->out
 * is a new one, for another try. */
int relay_cannot_open(struct relay *r, struct postbag_fault *why);
/* May fail: the error; then nothing is left to close. */
int relay_may_open(struct relay *r);
/* As at the end of the process: stops, closes. */
void relay_close(struct relay *r);
/* As kill -9: what the engine would still save is not saved.  The lock files
 * are free, as the kernel would leave them. */
void relay_kill(struct relay *r);

/* One step, woken as by a commit in this process. */
void relay_step(struct relay *r);
/* One step that was woken by the clock alone. */
void relay_tick(struct relay *r);
/* Steps as a thread would do them, until so much time has passed.  Time jumps
 * from deadline to deadline.  Fails the test if the engine spins.  The first
 * step is at once, woken as by a commit in this process. */
void relay_run_ms(struct relay *r, int64_t ms);
/* The same, but nobody tells the engine anything: it comes back by itself at
 * the deadlines that it named. */
void relay_idle_ms(struct relay *r, int64_t ms);

/* A world with one relay in it, for most tests. */
struct bench {
    struct world w;
    struct relay r;
};

int bench_set_up(void **state);
int bench_tear_down(void **state);
/* Open the relay; back when it owns the destination and its link is up. */
struct relay *bench_up(struct bench *b);

#define BENCH(name) \
    cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)

/* Rows by plain SQL: topics "PREFIX1", "PREFIX2" ... */
void relay_put(struct relay *r, const char *prefix, int count);
void relay_put_key(struct relay *r, const char *topic, const char *key);

#endif
