/* SPDX-License-Identifier: MIT */
/* Beyond its limits the inbox takes no new command, and acknowledges none. */
#include "inbox_script.h"

/* A command on cmd/x is only for consumer c, one on cmd/a for a, too. */
static int set_up_full(void **state)
{
    int err = set_up(state);

    world_add(*state, "c", "cmd/+", handle, &other);
    return err;
}

static int deliver(struct inbox_world *w, const char *id, const char *payload)
{
    return world_deliver_on(w, "cmd/x", id, NULL, payload);
}

static int64_t rows(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM inbox");
}

static void test_receiver_full_inbox_is_nack_until_there_is_room(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_property p[] = {{"id", "4"}};
    const struct postbag_frame f = {
        .topic = "cmd/x", .properties = p, .property_count = 1};

    temp_db_run(&w->t, "UPDATE inbox_sum SET max_rows = 3");
    assert_int_equal(deliver(w, "1", "x"), POSTBAG_OK);
    assert_int_equal(deliver(w, "2", "x"), POSTBAG_OK);
    assert_int_equal(deliver(w, "3", "x"), POSTBAG_OK);
    /* a duplicate needs no room */
    assert_int_equal(deliver(w, "3", "x"), POSTBAG_OK);
    assert_int_equal(
        postbag__receiver_accept(w->receiver, 2, &f), POSTBAG_EFULL);
    assert_int_equal(rows(w), 3);
    temp_db_run(&w->t, "DELETE FROM inbox WHERE id = '1'");
    assert_int_equal(postbag__receiver_accept(w->receiver, 3, &f), POSTBAG_OK);
    assert_int_equal(rows(w), 3);
}

/* A frame for two consumers where one row fits: it gets in, or one for more
 * consumers than inbox_max_rows would be delivered for ever. */
static void test_receiver_room_for_half_a_frame_stores_all(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "UPDATE inbox_sum SET max_rows = 3");
    assert_int_equal(world_deliver_on(w, "cmd/a", "1", NULL, "go"), POSTBAG_OK);
    assert_int_equal(world_deliver_on(w, "cmd/a", "2", NULL, "go"), POSTBAG_OK);
    assert_int_equal(rows(w), 4);
    assert_int_equal(
        world_deliver_on(w, "cmd/a", "3", NULL, "go"), POSTBAG_EFULL);
    assert_int_equal(rows(w), 4);
}

/* What is done, dead or born dead takes no room. */
static void test_receiver_finished_commands_take_no_room(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_frame nameless = {.topic = "cmd/x"};

    temp_db_run(&w->t, "UPDATE inbox_sum SET max_rows = 1");
    assert_int_equal(deliver(w, "1", "x"), POSTBAG_OK);
    assert_int_equal(
        postbag__receiver_accept(w->receiver, 1, &nameless), POSTBAG_OK);
    temp_db_run(&w->t, "UPDATE inbox SET state = 'done' WHERE id = '1'");
    assert_int_equal(deliver(w, "2", "x"), POSTBAG_OK);
    temp_db_run(&w->t, "UPDATE inbox SET state = 'dead' WHERE id = '2'");
    assert_int_equal(deliver(w, "3", "x"), POSTBAG_OK);
    assert_int_equal(deliver(w, "4", "x"), POSTBAG_EFULL);
    assert_int_equal(rows(w), 4);
}

/* The last one may pass the limit: a larger one is not delivered for ever. */
static void test_receiver_bytes_are_bounded(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "UPDATE inbox_sum SET max_bytes = 5");
    assert_int_equal(deliver(w, "1", "123456789"), POSTBAG_OK);
    /* a duplicate needs no room */
    assert_int_equal(deliver(w, "1", "123456789"), POSTBAG_OK);
    assert_int_equal(deliver(w, "2", ""), POSTBAG_EFULL);
    temp_db_run(&w->t,
        "UPDATE inbox SET state = 'done', payload = NULL WHERE id = '1'");
    w->generation++;
    assert_int_equal(world_deliver_on(w, "cmd/x", "2", NULL, "1"), POSTBAG_OK);
}

#define FULL(name) cmocka_unit_test_setup_teardown(name, set_up_full, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FULL(test_receiver_full_inbox_is_nack_until_there_is_room),
        FULL(test_receiver_room_for_half_a_frame_stores_all),
        FULL(test_receiver_finished_commands_take_no_room),
        FULL(test_receiver_bytes_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
