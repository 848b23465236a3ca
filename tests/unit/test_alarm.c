/* SPDX-License-Identifier: MIT */
/* The application is told once for each level, in time, and only then. */
#include "alarm.h"

#include "postbag/pressure.h"
#include "relay.h"
#include "unit.h"

struct told {
    int levels[16];
    int count;
    struct postbag_pressure last;
};

static void note(void *ctx, int level, const struct postbag_pressure *p)
{
    struct told *t = ctx;

    assert_true(t->count < 16);
    t->levels[t->count++] = level;
    t->last = *p;
}

static struct relay *up(struct bench *b, struct told *t)
{
    memset(t, 0, sizeof(*t));
    b->r.options.on_pressure = note;
    b->r.options.pressure_ctx = t;
    return bench_up(b);
}

static void expect(const struct told *t, int count, int level)
{
    assert_int_equal(t->count, count);
    assert_int_equal(t->levels[count - 1], level);
}

static void put(struct relay *r, int count)
{
    for (int i = 0; i < count; i++)
        relay_put(r, "t", 1);
    relay_run_ms(r, 200);
}

static void test_alarm_tells_each_level_once(void **state)
{
    struct bench *b = *state;
    struct told t;
    struct relay *r;

    b->r.options.max_rows = 22; /* 20 for bulk */
    r = up(b, &t);
    put(r, 9);
    assert_int_equal(t.count, 0);
    put(r, 1);
    expect(&t, 1, 50);
    assert_int_equal(t.last.rows, 10);
    assert_int_equal(t.last.rows_fill, 500);
    put(r, 5);
    assert_int_equal(t.count, 1);
    put(r, 5); /* past two marks at once */
    expect(&t, 2, 100);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 2000);
    expect(&t, 3, 0);
    assert_int_equal(t.last.rows, 0);
}

static void test_alarm_burst_is_looked_at_ten_times_a_second(void **state)
{
    struct bench *b = *state;
    struct told t;
    struct relay *r;

    b->r.options.max_rows = 228; /* 200 for bulk */
    r = up(b, &t);
    relay_run_ms(r, 500);
    relay_put(r, "t", 1); /* the look that the burst waits for */
    relay_run_ms(r, 1);
    b->w.sim.calls[SIM_ROOM] = 0;
    for (int i = 0; i < 99; i++) {
        relay_put(r, "t", 1);
        relay_step(r);
    }
    assert_int_equal(b->w.sim.calls[SIM_ROOM], 0);
    assert_int_equal(t.count, 0);
    relay_tick(r); /* nothing has changed since */
    relay_idle_ms(r, 110);
    assert_int_equal(b->w.sim.calls[SIM_ROOM], 1);
    expect(&t, 1, 50);
}

static void test_alarm_disk_that_others_fill_is_seen(void **state)
{
    struct bench *b = *state;
    struct told t;
    struct relay *r;

    b->r.options.min_free_bytes = 1000;
    r = up(b, &t);
    relay_idle_ms(r, 10000);
    assert_int_equal(t.count, 0);
    b->w.sim.room.free_bytes = 1900;
    relay_idle_ms(r, 6000);
    expect(&t, 1, 50);
    assert_int_equal(t.last.free_bytes, 1900);
    b->w.sim.room.free_bytes = 900;
    relay_idle_ms(r, 6000);
    expect(&t, 2, 100);
    b->w.sim.room.free_bytes = 10000;
    relay_idle_ms(r, 6000);
    expect(&t, 3, 0);
}

static void test_alarm_without_a_callback_costs_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_rows = 22; /* 20 for bulk */
    b->r.options.min_free_bytes = 1000;
    r = bench_up(b);
    put(r, 20);
    assert_null(r->e.alarm.gauge.port);
    assert_int_equal(postbag__alarm_deadline(&r->e.alarm), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_alarm_tells_each_level_once),
        BENCH(test_alarm_burst_is_looked_at_ten_times_a_second),
        BENCH(test_alarm_disk_that_others_fill_is_seen),
        BENCH(test_alarm_without_a_callback_costs_nothing),
    };

    return cmocka_run_group_tests_name("alarm", tests, NULL, NULL);
}
