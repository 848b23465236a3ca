/* SPDX-License-Identifier: MIT */
/*
 * SQLite fails in any statement while commands come in and are handled; then
 * it works.  What was refused is delivered again, as a broker does; in the end
 * each command has had its one effect.
 */
#include "failing_sql.h"
#include "inbox_world.h"
#include "writer.h"

enum { COMMANDS = 24, ROUNDS = 60 };

static enum postbag_outcome add_effect(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const struct postbag_message reply = {
        .struct_size = sizeof(reply), .payload = "yes", .payload_len = 3};
    char sql[128];

    (void)ctx;
    (void)snprintf(sql, sizeof(sql), "INSERT INTO effects VALUES ('%.*s')",
        (int)cmd->id_len, (const char *)cmd->id);
    if (postbag__exec(&w->db, sql) != POSTBAG_OK)
        return POSTBAG_RETRY;
    if (cmd->response_topic != NULL &&
        postbag_reply(w, cmd, &reply, NULL) != POSTBAG_OK)
        return POSTBAG_RETRY;
    return POSTBAG_DONE;
}

static int deliver(struct inbox_world *w, int number)
{
    char id[12];
    char key[12];
    const struct postbag_property p[] = {{"id", id}, {"partitionkey", key}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "go",
        .payload_len = 2,
        .response_topic = number % 3 == 0 ? "re/1" : NULL,
        .properties = p,
        .property_count = 2};

    (void)snprintf(id, sizeof(id), "%d", number);
    (void)snprintf(key, sizeof(key), "k%d", number % 4);
    /* each NACK ends the connection */
    w->generation++;
    return postbag__receiver_accept(w->receiver, w->generation, &f);
}

/* What the broker has had no PUBACK for comes (again). */
static void deliver_some(struct inbox_world *w, char acked[COMMANDS])
{
    for (int i = 0; i < COMMANDS; i++) {
        if (one_in != 0 && draw(3) == 0)
            continue;
        if (!acked[i] || draw(5) == 0) {
            int err = deliver(w, i);

            assert_true(err == POSTBAG_OK || one_in != 0);
            acked[i] |= err == POSTBAG_OK;
        }
    }
}

static void handle_some(struct inbox_world *w)
{
    for (int i = 0; i < ROUNDS; i++) {
        int64_t next_us = 0;
        int did = 0;
        int err = postbag__worker_run_one(w->worker, &did, &next_us);

        assert_true(err == POSTBAG_OK || one_in != 0);
        world_pass_ms(w, err == POSTBAG_OK && did ? 1 : 2000);
    }
}

static void live_once(uint64_t seed)
{
    char acked[COMMANDS] = {0};
    struct inbox_world *w = world_new();

    begin_life(seed);
    temp_db_run(&w->t, "CREATE TABLE effects(id TEXT)");
    world_add(w, "c", "cmd/#", add_effect, NULL);
    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
    one_in = 10 + draw(120);
    for (int i = 0; i < 6; i++) {
        deliver_some(w, acked);
        handle_some(w);
    }
    one_in = 0;
    deliver_some(w, acked);
    for (int i = 0; i < 20; i++)
        handle_some(w);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox"), COMMANDS);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(DISTINCT id) + (SELECT"
                                        " count(*) FROM inbox WHERE state ="
                                        " 'dead') FROM effects"),
        COMMANDS);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) - count(DISTINCT id) FROM effects"),
        0);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE state = 'done'"),
        temp_db_get(&w->t, "SELECT count(*) FROM effects"));
    world_free(w);
}

static void test_no_statement_commands_have_one_effect(void **state)
{
    (void)state;
    run_lives("F16_statements_inbox", 15, live_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_statement_commands_have_one_effect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
