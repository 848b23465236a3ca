/* SPDX-License-Identifier: MIT */
/*
 * A message that kills the process, and processes that are killed for other
 * reasons.  Each life is a process of its own, on the virtual clock, that dies
 * within a send; the clock and what was sent are in memory that all share.
 */
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "relay.h"

#include "unit.h"

/* Processes die here, not machines: for SQLite, too. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

enum { LOG = 20000, LIFE_MS = 400 * 1000 };

struct scene {
    struct world w;
    const char *poison; /* kills at once */
    int sends_left;     /* the process dies in this one; 0: never */
    int is_silent;      /* the broker answers nothing */
    uint32_t max_attempts;
    size_t count;
    struct {
        char topic[16], key[8];
    } sent[LOG];
};

static int set_up(void **state)
{
    struct scene *sc = mmap(NULL, sizeof(*sc), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(sc, MAP_FAILED);
    world_make(&sc->w);
    *state = sc;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *sc = *state;

    world_remove(&sc->w);
    return munmap(sc, sizeof(*sc));
}

/* ---- a life ---- */

static void on_send(void *ctx, const struct fake_sent *s)
{
    struct scene *sc = ctx;

    assert_true(sc->count < LOG);
    (void)snprintf(sc->sent[sc->count].topic, 16, "%.15s", s->topic);
    (void)snprintf(sc->sent[sc->count].key, 8, "%.7s", s->key);
    sc->count++;
    if (sc->poison != NULL && strcmp(s->topic, sc->poison) == 0)
        (void)raise(SIGKILL);
    if (sc->sends_left > 0 && --sc->sends_left == 0)
        (void)raise(SIGKILL);
}

static void live(struct scene *sc, int64_t ms)
{
    static struct relay r;

    relay_init(&r, &sc->w);
    r.options.max_attempts = sc->max_attempts;
    r.out->auto_settle = !sc->is_silent;
    r.out->on_send = on_send;
    r.out->on_send_ctx = sc;
    relay_open(&r);
    relay_run_ms(&r, ms);
    relay_close(&r);
    _exit(r.errors == 0 ? 0 : 2);
}

/* 1: it was killed.  SQLite must not be open across a fork. */
static int run_life(struct scene *sc, int64_t ms)
{
    pid_t child;
    int status;

    assert_int_equal(sqlite3_close(sc->w.t.app), SQLITE_OK);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        live(sc, ms);
    assert_int_equal(waitpid(child, &status, 0), child);
    sc->w.t.app = tempdb_connect(&sc->w.t);
    sc->w.sim.open_gates = 0;
    sim_pass_ms(&sc->w.sim, 1000);
    if (WIFSIGNALED(status))
        return 1;
    assert_int_equal(WEXITSTATUS(status), 0);
    return 0;
}

static void put(struct scene *sc, const char *topic, const char *key)
{
    sql_run(sc->w.t.app,
        "INSERT INTO outbox(topic, payload, key)"
        " VALUES ('%s', '', nullif('%s', ''))",
        topic, key);
}

static size_t sends_of(const struct scene *sc, const char *topic)
{
    size_t n = 0;

    for (size_t i = 0; i < sc->count; i++)
        n += strcmp(sc->sent[i].topic, topic) == 0;
    return n;
}

/* First sends of a key ascend: its topics are numbers. */
static void expect_order(const struct scene *sc, const char *key, long rows)
{
    long newest = 0;

    for (size_t i = 0; i < sc->count; i++) {
        long n = strtol(sc->sent[i].topic, NULL, 10);

        if (strcmp(sc->sent[i].key, key) != 0 || n <= newest)
            continue;
        assert_int_equal(n, newest + 1);
        newest = n;
    }
    assert_int_equal(newest, rows);
}

static const char *held(struct scene *sc)
{
    return sql_text(sc->w.t.app,
        "SELECT topic, state, attempts FROM outbox_held ORDER BY seq");
}

static void expect_all_delivered_but(struct scene *sc, int dead)
{
    assert_int_equal(sql_get(sc->w.t.app,
                         "SELECT sum(delivered) + %d - (SELECT max(seq)"
                         " FROM outbox) FROM outbox_cursor",
                         dead),
        0);
}

/* ---- a message that kills ---- */

/* Each life brings a new message, since the others must prove the link. */
static int die_of(struct scene *sc, const char *poison, int reboots)
{
    int deaths = 0;

    sc->poison = poison;
    for (int life = 0; life < 60; life++) {
        sc->w.sim.boot = (uint8_t)(sc->w.sim.boot + reboots);
        put(sc, "n", "");
        if (run_life(sc, LIFE_MS))
            deaths++;
        else if (life > deaths + 2)
            return deaths;
    }
    fail_msg("still alive: %s", held(sc));
    return 0;
}

static void check_killer(struct scene *sc, int reboots)
{
    for (int i = 0; i < 30; i++)
        put(sc, "a", "");
    put(sc, "1", "o");
    put(sc, "bad", "k");
    put(sc, "2", "o");
    put(sc, "next", "k");
    for (int i = 0; i < 30; i++)
        put(sc, "z", "");
    /* the first after an orderly start, 2 in company, 3 alone, 12 proven */
    assert_int_equal(die_of(sc, "bad", reboots), 1 + 2 + 3 + 12);
    assert_string_equal(held(sc), "bad|dead|1");
    assert_int_equal(sends_of(sc, "bad"), 18);
    assert_int_equal(sends_of(sc, "next"), 1);
    assert_string_equal(sc->sent[sc->count - 1].topic, "n");
    expect_order(sc, "o", 2);
    expect_all_delivered_but(sc, 1);
}

static void test_deaths_killer_is_found_and_all_others_leave(void **state)
{
    check_killer(*state, 0);
}

/* It takes the machine along: a watchdog, a supervisor that reboots. */
static void test_deaths_killer_of_the_machine_is_found(void **state)
{
    check_killer(*state, 1);
}

static void test_deaths_max_attempts_bounds_them(void **state)
{
    struct scene *sc = *state;

    sc->max_attempts = 2;
    put(sc, "bad", "");
    assert_int_equal(die_of(sc, "bad", 0), 1 + 2 + 3 + 2);
    expect_all_delivered_but(sc, 1);
}

static void test_deaths_killer_that_an_operator_requeued_is_found_again(
    void **state)
{
    struct scene *sc = *state;

    sc->max_attempts = 1;
    put(sc, "bad", "");
    (void)die_of(sc, "bad", 0);
    for (int i = 0; i < 3; i++) {
        sql_run(sc->w.t.app, "UPDATE outbox_held SET state = 'retry',"
                             " attempts = 0, deaths = 0, due_boot = NULL");
        assert_int_equal(die_of(sc, "bad", 0), 1 + 2 + 3 + 1);
        assert_string_equal(held(sc), "bad|dead|1");
    }
    expect_all_delivered_but(sc, 1);
}

static void test_deaths_two_killers_are_found(void **state)
{
    struct scene *sc = *state;

    sc->max_attempts = 1;
    for (int i = 0; i < 20; i++)
        put(sc, i == 3 || i == 11 ? "bad" : "good", "");
    assert_in_range(die_of(sc, "bad", 0), 11, 20);
    assert_string_equal(held(sc), "bad|dead|1 bad|dead|1");
    expect_all_delivered_but(sc, 2);
}

static void test_deaths_urgent_killer_is_found(void **state)
{
    struct scene *sc = *state;

    sc->max_attempts = 1;
    for (int i = 0; i < 20; i++)
        put(sc, "good", "");
    sql_run(sc->w.t.app, "INSERT INTO outbox(topic, payload, priority)"
                         " VALUES ('fine', '', 3), ('bad', '', 2)");
    assert_in_range(die_of(sc, "bad", 0), 7, 8);
    assert_string_equal(held(sc), "bad|dead|1");
    expect_all_delivered_but(sc, 1);
}

/* ---- kills that have another reason ---- */

static unsigned draw(unsigned *random, unsigned below)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 16) % below;
}

/* A last life, long enough for every suspect's turn. */
static void expect_recovery(struct scene *sc)
{
    sc->poison = NULL;
    sc->sends_left = 0;
    sc->is_silent = 0;
    put(sc, "last", "");
    assert_int_equal(run_life(sc, 3600 * 1000), 0);
    assert_string_equal(held(sc), "");
    expect_all_delivered_but(sc, 0);
}

static void test_deaths_at_random_kill_no_message(void **state)
{
    struct scene *sc = *state;
    unsigned random = 5;

    for (int life = 0; life < 150; life++) {
        for (unsigned i = draw(&random, 8); i > 0; i--)
            put(sc, "t", draw(&random, 2) ? "k" : "");
        sc->sends_left = (int)draw(&random, 12);
        sc->is_silent = draw(&random, 3) == 0;
        sc->w.sim.boot = (uint8_t)(sc->w.sim.boot + draw(&random, 2));
        (void)run_life(sc, draw(&random, 3) ? 2000 : 100 * 1000);
        assert_int_equal(sql_get(sc->w.t.app, "SELECT count(*) FROM outbox_held"
                                              " WHERE state = 'dead'"),
            0);
    }
    expect_recovery(sc);
}

/* The modem draws the supply down whenever something is sent. */
static void test_deaths_at_each_first_send_kill_no_message(void **state)
{
    struct scene *sc = *state;

    for (int i = 0; i < 200; i++)
        put(sc, "t", "");
    for (int life = 0; life < 60; life++) {
        sc->sends_left = 1;
        sc->w.sim.boot++;
        assert_int_equal(run_life(sc, LIFE_MS), 1);
    }
    assert_int_equal(sql_get(sc->w.t.app, "SELECT count(*) FROM outbox_held"
                                          " WHERE state = 'dead'"),
        0);
    expect_recovery(sc);
}

/* The application dies of something else, always as long after its start: a
 * suspect of its first phase must not be convicted in the second. */
static void test_deaths_of_a_crash_loop_kill_no_message(void **state)
{
    struct scene *sc = *state;

    for (int i = 0; i < 50; i++)
        put(sc, "t", "");
    for (int life = 0; life < 8; life++) {
        sc->sends_left = 1;
        assert_int_equal(run_life(sc, LIFE_MS), 1);
    }
    assert_int_not_equal(
        sql_get(sc->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
    for (int life = 0; life < 40; life++) {
        put(sc, "t", "");
        put(sc, "t", "");
        sc->sends_left = 2;
        (void)run_life(sc, 20 * 1000);
    }
    assert_int_equal(sql_get(sc->w.t.app, "SELECT count(*) FROM outbox_held"
                                          " WHERE state = 'dead'"),
        0);
    expect_recovery(sc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_deaths_killer_is_found_and_all_others_leave),
        TEST_IN(test_deaths_killer_of_the_machine_is_found),
        TEST_IN(test_deaths_max_attempts_bounds_them),
        TEST_IN(test_deaths_killer_that_an_operator_requeued_is_found_again),
        TEST_IN(test_deaths_two_killers_are_found),
        TEST_IN(test_deaths_urgent_killer_is_found),
        TEST_IN(test_deaths_at_random_kill_no_message),
        TEST_IN(test_deaths_at_each_first_send_kill_no_message),
        TEST_IN(test_deaths_of_a_crash_loop_kill_no_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
