/* SPDX-License-Identifier: MIT */
/*
 * A full outbox is not the command's fault: it may stay full for as long as
 * the broker is away, and no command dies of that.
 */
#include "inbox_script.h"

#include "limit_store.h"

static enum postbag_outcome put_or_retry(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "evt", .payload = ""};
    struct script *s = ctx;

    s->attempt = cmd->attempt;
    s->ran++;
    assert_int_equal(sqlite3_exec(postbag_writer_db(w), effect, 0, 0, 0), 0);
    return postbag_put(w, &m, NULL) == POSTBAG_OK ? POSTBAG_DONE
                                                  : POSTBAG_RETRY;
}

static void fill_outbox(struct inbox_world *w)
{
    const struct limits limits = {.max_rows = 1};

    temp_db_run(&w->t, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
    assert_int_equal(postbag__limits_set(&w->t.db, &limits), POSTBAG_OK);
}

static void expect_it_waits_for_room(struct inbox_world *w)
{
    int64_t next_us = w->mono_us;
    int did;

    for (int i = 0; i < 2 * WORLD_MAX_ATTEMPTS; i++) {
        w->mono_us = next_us;
        assert_int_equal(world_run_one(w), 1);
        assert_int_equal(script.ran, i + 1);
        assert_int_equal(script.attempt, 1);
        assert_int_equal(in_state(w, "due"), 1);
        assert_int_equal(
            postbag__worker_run_one(w->worker, &did, &next_us), POSTBAG_OK);
        assert_int_equal(did, 0);
    }
    expect_error(w, "outbox is full");
    assert_int_equal(effects(w), 0);
    /* ever rarer, since each try writes */
    assert_int_equal((next_us - w->mono_us) / 1000, 4 * WORLD_RETRY_BASE_MS);
    temp_db_run(&w->t, "UPDATE outbox_cursor SET settled_rows = 1");
    w->mono_us = next_us;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
    assert_int_equal(effects(w), 1);
}

static void test_handling_full_outbox_charges_no_attempt(void **state)
{
    struct inbox_world *w = *state;

    fill_outbox(w);
    w->consumers.list[0].handler = put_or_retry;
    world_deliver(w, "1", NULL);
    expect_it_waits_for_room(w);
}

static enum postbag_outcome write_or_retry(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct script *s = ctx;

    s->attempt = cmd->attempt;
    s->ran++;
    return sqlite3_exec(postbag_writer_db(w), effect, 0, 0, 0) == SQLITE_OK
               ? POSTBAG_DONE
               : POSTBAG_RETRY;
}

/* The application's own statement fails, since its trigger puts a message. */
static void test_handling_full_outbox_in_a_trigger_charges_none(void **state)
{
    struct inbox_world *w = *state;

    fill_outbox(w);
    temp_db_run(&w->t, "CREATE TRIGGER tells AFTER UPDATE ON app BEGIN"
                       " INSERT INTO outbox(topic, payload)"
                       " VALUES ('evt', CAST(NEW.n AS TEXT)); END");
    w->consumers.list[0].handler = write_or_retry;
    world_deliver(w, "1", NULL);
    expect_it_waits_for_room(w);
}

static void test_handling_reject_for_a_full_outbox_is_dead(void **state)
{
    struct inbox_world *w = *state;

    fill_outbox(w);
    script.sql = "INSERT INTO outbox(topic, payload) VALUES ('evt', '')";
    script.outcome = POSTBAG_REJECT;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_handling_full_outbox_charges_no_attempt),
        TEST(test_handling_full_outbox_in_a_trigger_charges_none),
        TEST(test_handling_reject_for_a_full_outbox_is_dead),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
