/* SPDX-License-Identifier: MIT */
/* The file of the live state: what stands in it, and how often it is
 * written. */
#include "live.h"

#include <stdlib.h>
#include <unistd.h>

#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t; /* its folder only */
    struct sim_port sim;
    struct live live;
    struct live_facts facts;
    struct log log;
    unsigned warnings;
};

static void hear(void *ctx, const struct postbag_log_line *line)
{
    struct world *w = ctx;

    w->warnings += line->level == POSTBAG_LOG_WARNING;
}

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make(&w.t);
    sim_port_init(&w.sim);
    w.log.write = hear;
    w.log.ctx = &w;
    w.facts.is_owner = 1;
    w.facts.link = "up";
    w.facts.inbound = "off";
    w.facts.error = "";
    assert_ok(postbag__live_open(
        &w.live, &w.sim.port, w.t.folder, "/data/gw.db", "main"));
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    tempdb_remove(&w->t);
    return 0;
}

static void step(struct world *w)
{
    postbag__live_step(&w->live, &w->log, w->sim.mono_us, &w->facts);
}

static unsigned writes(const struct world *w)
{
    return w->sim.calls[SIM_REPLACE_FILE];
}

static const char *content(const struct world *w)
{
    static char text[2000];
    FILE *f = fopen(w->live.path, "r");
    size_t len;

    assert_non_null(f);
    len = fread(text, 1, sizeof(text) - 1, f);
    assert_int_equal(fclose(f), 0);
    text[len] = '\0';
    return text;
}

/* ---- what ---- */

static void test_live_file_tells_every_fact(void **state)
{
    struct world *w = *state;

    w->facts = (struct live_facts){
        .is_owner = 1,
        .link = "down",
        .inbound = "connecting",
        .error = "refused",
        .stalled = "full",
        .link_attempts = 1,
        .next_try_ms = 2,
        .in_flight = 3,
        .last_puback_ms = 4,
        .delivered = 5,
        .put_seq = 6,
        .wal_frames = 7,
        .accepted = 8,
        .duplicates = 9,
        .nacks = 10,
        .server = 11,
        .bulk_rate = 14,
        .bulk_bytes_rate = 15,
        .pace_all = 1,
        .own_certificate_end_s = 12,
        .server_certificate_end_s = 13,
        .is_held_full = 1,
    };
    step(w);
    assert_string_equal(content(w),
        "mono_ms=60000\nboot=01010101010101010101010101010101\nrole=owner\n"
        "link=down\nlink_attempts=1\nnext_try_ms=2\nin_flight=3\n"
        "last_puback_ms=4\ndelivered=5\nput_seq=6\nrate_delivered_milli=-1\n"
        "error=refused\ninbound=connecting\nwal_frames=7\naccepted=8\n"
        "duplicates=9\nnacks=10\nserver=11\nown_certificate_end_s=12\n"
        "server_certificate_end_s=13\n"
        "held_full=1\nstalled=full\nbulk_rate=14\nbulk_bytes_rate=15\n"
        "pace_all=1\n");
}

static void test_live_role_without_office_is_standby(void **state)
{
    struct world *w = *state;

    w->facts.is_owner = 0;
    step(w);
    assert_has(content(w), "\nrole=standby\n");
}

static void test_live_largest_facts_fit(void **state)
{
    char error[200]; /* as long as a fault's text */
    struct world *w = *state;

    memset(error, 'e', sizeof(error) - 1);
    error[sizeof(error) - 1] = '\0';
    w->facts = (struct live_facts){
        .link = "connecting",
        .inbound = "connecting",
        .error = error,
        .stalled = "replaced",
        .link_attempts = UINT32_MAX,
        .next_try_ms = INT64_MIN,
        .in_flight = UINT32_MAX,
        .last_puback_ms = INT64_MIN,
        .delivered = UINT32_MAX,
        .put_seq = INT64_MIN,
        .wal_frames = INT64_MIN,
        .accepted = UINT32_MAX,
        .duplicates = UINT32_MAX,
        .nacks = UINT32_MAX,
        .server = UINT32_MAX,
        .bulk_rate = UINT32_MAX,
        .bulk_bytes_rate = UINT32_MAX,
        .pace_all = UINT32_MAX,
        .own_certificate_end_s = INT64_MIN,
        .server_certificate_end_s = INT64_MIN,
        .is_held_full = 1,
    };
    w->live.rate_milli = INT64_MIN;
    step(w);
    assert_has(content(w), "\npace_all=4294967295\n");
}

/* 50 messages in 10 s are 5 a second, also where the counter wraps. */
static void test_live_rate_is_that_of_the_last_ten_seconds(void **state)
{
    struct world *w = *state;

    w->facts.delivered = UINT32_MAX - 10;
    step(w);
    sim_pass_ms(&w->sim, 10000);
    w->facts.delivered += 50;
    step(w);
    assert_has(content(w), "\nrate_delivered_milli=5000\n");
}

static void test_live_rate_of_a_silent_relay_falls_to_zero(void **state)
{
    struct world *w = *state;

    step(w);
    w->facts.delivered = 50;
    sim_pass_ms(&w->sim, 10000);
    step(w);
    sim_pass_ms(&w->sim, 10000);
    step(w);
    assert_has(content(w), "\nrate_delivered_milli=0\n");
}

/* ---- when ---- */

static void test_live_unchanged_facts_are_not_written_again(void **state)
{
    struct world *w = *state;

    step(w);
    sim_pass_ms(&w->sim, 10000);
    step(w); /* the rate is known now */
    w->sim.calls[SIM_REPLACE_FILE] = 0;
    for (int i = 0; i < 100; i++) {
        sim_pass_ms(&w->sim, 1000);
        step(w);
    }
    assert_int_equal(writes(w), 0);
}

static void test_live_facts_that_change_are_written_once_a_second(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 1000; i++) {
        w->facts.delivered++;
        step(w);
        sim_pass_ms(&w->sim, 10);
    }
    assert_int_equal(writes(w), 10);
}

/* Nobody may step again for a long time, unless told so. */
static void test_live_change_within_the_second_names_a_deadline(void **state)
{
    struct world *w = *state;
    int64_t deadline;

    step(w);
    sim_pass_ms(&w->sim, 300);
    w->facts.link = "down";
    step(w);
    deadline = postbag__live_deadline(&w->live, w->sim.mono_us);
    assert_int_equal(deadline, w->sim.mono_us + 700 * 1000);
    sim_pass_ms(&w->sim, 700);
    step(w);
    assert_has(content(w), "\nlink=down\n");
}

static void test_live_told_all_there_is_no_deadline(void **state)
{
    struct world *w = *state;

    step(w);
    sim_pass_ms(&w->sim, 1000);
    step(w);
    assert_int_equal(
        postbag__live_deadline(&w->live, w->sim.mono_us), INT64_MAX);
}

/* ---- trouble ---- */

static void test_live_error_is_told_once_and_leaves_a_minute_of_rest(
    void **state)
{
    struct world *w = *state;

    w->sim.fails[SIM_REPLACE_FILE] = POSTBAG_EIO;
    for (int i = 0; i < 60; i++) {
        w->facts.delivered++;
        step(w);
        sim_pass_ms(&w->sim, 999);
    }
    assert_int_equal(writes(w), 1);
    assert_int_equal(w->warnings, 1);
}

static void test_live_after_the_minute_it_is_written(void **state)
{
    struct world *w = *state;

    w->sim.fails[SIM_REPLACE_FILE] = POSTBAG_EIO;
    step(w);
    w->sim.fails[SIM_REPLACE_FILE] = POSTBAG_OK;
    assert_int_equal(postbag__live_deadline(&w->live, w->sim.mono_us),
        w->sim.mono_us + 60 * 1000 * 1000);
    sim_pass_ms(&w->sim, 60000);
    step(w);
    assert_has(content(w), "\nlink=up\n");
    assert_int_equal(w->warnings, 1);
}

/* ---- open ---- */

static void test_live_run_dir_none_writes_nothing(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__live_open(
        &w->live, &w->sim.port, "none", "/data/gw.db", "main"));
    step(w);
    assert_int_equal(writes(w), 0);
    assert_int_equal(
        postbag__live_deadline(&w->live, w->sim.mono_us), INT64_MAX);
}

static void test_live_path_that_is_too_long_is_refused(void **state)
{
    struct world *w = *state;
    char run_dir[400];

    memset(run_dir, 'd', sizeof(run_dir) - 1);
    run_dir[sizeof(run_dir) - 1] = '\0';
    assert_int_equal(
        postbag__live_open(&w->live, &w->sim.port, run_dir, "/gw.db", "main"),
        POSTBAG_ETOOBIG);
}

static void test_live_boot_id_that_cannot_be_read_is_an_error(void **state)
{
    struct world *w = *state;

    w->sim.fails[SIM_BOOT_ID] = POSTBAG_EIO;
    assert_int_equal(postbag__live_open(
                         &w->live, &w->sim.port, w->t.folder, "/gw.db", "main"),
        POSTBAG_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_live_file_tells_every_fact),
        TEST_IN(test_live_role_without_office_is_standby),
        TEST_IN(test_live_largest_facts_fit),
        TEST_IN(test_live_rate_is_that_of_the_last_ten_seconds),
        TEST_IN(test_live_rate_of_a_silent_relay_falls_to_zero),
        TEST_IN(test_live_unchanged_facts_are_not_written_again),
        TEST_IN(test_live_facts_that_change_are_written_once_a_second),
        TEST_IN(test_live_change_within_the_second_names_a_deadline),
        TEST_IN(test_live_told_all_there_is_no_deadline),
        TEST_IN(test_live_error_is_told_once_and_leaves_a_minute_of_rest),
        TEST_IN(test_live_after_the_minute_it_is_written),
        TEST_IN(test_live_run_dir_none_writes_nothing),
        TEST_IN(test_live_path_that_is_too_long_is_refused),
        TEST_IN(test_live_boot_id_that_cannot_be_read_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
