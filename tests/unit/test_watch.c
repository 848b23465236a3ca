/* SPDX-License-Identifier: MIT */
/* When the relay looks whether somebody else has committed. */
#include "watch.h"

#include <stdlib.h>

#include "postbag/port.h"
#include "tempdb.h"
#include "unit.h"

enum { POLL_MS = 5000, NOW = 1000000 };

struct post {
    struct tempdb t;
    struct db db;
    struct watch w;
    int64_t now_us;
};

static int step(struct post *p, unsigned reasons)
{
    int changed = -1;

    assert_ok(postbag__watch_step(&p->w, p->now_us, reasons, &changed));
    return changed;
}

static int set_up(void **state)
{
    struct post *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdb_make_outbox(&p->t);
    assert_ok(postbag__db_open(&p->db, p->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__watch_open(&p->w, &p->db, POLL_MS));
    p->now_us = NOW;
    assert_int_equal(step(p, 0), 1); /* the first look is news */
    assert_int_equal(step(p, 0), 0);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct post *p = *state;

    postbag__watch_close(&p->w);
    postbag__db_close(&p->db);
    tempdb_remove(&p->t);
    free(p);
    return 0;
}

static void commit(struct post *p)
{
    sql_run(p->t.app, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
}

/* Follow the deadlines for so long; how many there were. */
static int wake_ups(struct post *p, int64_t ms)
{
    int64_t end = p->now_us + ms * 1000;
    int count = 0;

    while (postbag__watch_deadline(&p->w) <= end) {
        p->now_us = postbag__watch_deadline(&p->w);
        assert_int_equal(step(p, 0), 0);
        count++;
    }
    p->now_us = end;
    return count;
}

static void test_watch_idle_wakes_for_the_safety_poll_only(void **state)
{
    assert_int_equal(wake_ups(*state, 3600 * 1000), 3600 * 1000 / POLL_MS);
}

static void test_watch_poll_finds_a_commit_without_an_event(void **state)
{
    struct post *p = *state;

    commit(p);
    assert_int_equal(step(p, 0), 0);
    p->now_us = postbag__watch_deadline(&p->w);
    assert_int_equal(p->now_us, NOW + POLL_MS * 1000);
    assert_int_equal(step(p, 0), 1);
    assert_int_equal(step(p, 0), 0);
}

static void test_watch_wake_looks_at_once_and_once(void **state)
{
    struct post *p = *state;

    commit(p);
    p->now_us += 10;
    assert_int_equal(step(p, POSTBAG_WOKEN), 1);
    assert_int_equal(
        postbag__watch_deadline(&p->w), p->now_us + POLL_MS * 1000);
}

/* The event is the write; the commit is visible only later. */
static void test_watch_event_searches_until_the_commit_is_seen(void **state)
{
    struct post *p = *state;
    int looks = 0;

    assert_int_equal(step(p, POSTBAG_FILE_CHANGED), 0);
    assert_int_equal(postbag__watch_deadline(&p->w) - p->now_us, 200);
    while (p->now_us < NOW + 30000) {
        p->now_us = postbag__watch_deadline(&p->w);
        assert_int_equal(step(p, 0), 0);
        looks++;
    }
    assert_in_range(looks, 7, 8); /* doubling distances */
    commit(p);
    p->now_us = postbag__watch_deadline(&p->w);
    assert_int_equal(step(p, 0), 1);
    /* found: the search is over */
    assert_int_equal(
        postbag__watch_deadline(&p->w), p->now_us + POLL_MS * 1000);
}

static void test_watch_event_without_a_commit_ends_after_a_second(void **state)
{
    struct post *p = *state;

    assert_int_equal(step(p, POSTBAG_FILE_CHANGED), 0);
    assert_in_range(wake_ups(p, 1100), 15, 22);
    assert_int_equal(wake_ups(p, POLL_MS - 200), 0);
    assert_int_equal(wake_ups(p, POLL_MS), 1);
}

/* An event that comes with a commit may belong to the next one. */
static void test_watch_event_beside_a_commit_keeps_searching(void **state)
{
    struct post *p = *state;

    commit(p);
    assert_int_equal(step(p, POSTBAG_FILE_CHANGED), 1);
    assert_int_equal(postbag__watch_deadline(&p->w) - p->now_us, 200);
}

static void test_watch_own_commits_are_no_news(void **state)
{
    struct post *p = *state;

    assert_ok(postbag__begin(&p->db, DB_NORMAL));
    assert_ok(
        postbag__exec(&p->db, "UPDATE outbox_dest SET epoch = epoch + 1"));
    assert_ok(postbag__commit(&p->db));
    assert_int_equal(step(p, POSTBAG_WOKEN), 0);
}

static void test_watch_forgotten_news_is_news_again(void **state)
{
    struct post *p = *state;

    commit(p);
    assert_int_equal(step(p, POSTBAG_WOKEN), 1);
    postbag__watch_forget(&p->w, p->now_us + 100);
    assert_int_equal(postbag__watch_deadline(&p->w), p->now_us + 100);
    p->now_us += 100;
    assert_int_equal(step(p, 0), 1);
    assert_int_equal(step(p, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_watch_idle_wakes_for_the_safety_poll_only),
        TEST_IN(test_watch_poll_finds_a_commit_without_an_event),
        TEST_IN(test_watch_wake_looks_at_once_and_once),
        TEST_IN(test_watch_event_searches_until_the_commit_is_seen),
        TEST_IN(test_watch_event_without_a_commit_ends_after_a_second),
        TEST_IN(test_watch_event_beside_a_commit_keeps_searching),
        TEST_IN(test_watch_own_commits_are_no_news),
        TEST_IN(test_watch_forgotten_news_is_news_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
