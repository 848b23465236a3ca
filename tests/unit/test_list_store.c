/* SPDX-License-Identifier: MIT */
#include "list_store.h"

#include <string.h>

#include "temp_db.h"

/* "seq:state seq:state ..." */
struct listing {
    char text[1536];
    int stop_after;
};

static int note_row(void *ctx, const struct postbag_row *row)
{
    struct listing *l = ctx;
    size_t len = strlen(l->text);

    (void)snprintf(l->text + len, sizeof(l->text) - len, "%s%lld:%s",
        len == 0 ? "" : " ", (long long)row->seq,
        postbag_row_state_name(row->state));
    return l->stop_after > 0 && --l->stop_after == 0 ? 99 : 0;
}

static const char *list(
    struct temp_db *t, const struct postbag_row_filter *more)
{
    static struct listing l;
    struct postbag_row_filter filter = *more;

    memset(&l, 0, sizeof(l));
    if (filter.dest == NULL)
        filter.dest = "main";
    assert_int_equal(
        postbag__list_rows(&t->db, &filter, note_row, &l), POSTBAG_OK);
    return l.text;
}

#define LIST(t, ...) list(t, &(struct postbag_row_filter){__VA_ARGS__})

/*
 * 1 published, 2 urgent and sending, 3 retry, 4 urgent and pending, 5 sending,
 * 6 of another destination, 7 pending, 8 urgent and pending; 9 was purged and
 * is dead
 */
static void make_every_state(struct temp_db *t)
{
    assert_int_equal(postbag__schema_add_dest(&t->db, "cloud"), POSTBAG_OK);
    temp_db_put(t, 1, 0);
    temp_db_put(t, 1, 2);
    temp_db_put(t, 1, 0);
    temp_db_put(t, 1, 3);
    temp_db_put(t, 1, 0);
    temp_db_run(t, "INSERT INTO outbox(topic, payload, dest)"
                   " VALUES ('t/6', 'p', 'cloud')");
    temp_db_put(t, 1, 0);
    temp_db_put(t, 1, 3);
    temp_db_put(t, 2, 0);
    temp_db_hold(t, 3, "retry");
    temp_db_hold(t, 9, "dead");
    temp_db_run(t, "DELETE FROM outbox WHERE seq = 9");
    temp_db_run(t, "UPDATE outbox_cursor SET acked = 3, sent_hi = 6"
                   " WHERE dest = 'main' AND lane = 0");
    temp_db_run(t, "UPDATE outbox_cursor SET sent_hi = 2"
                   " WHERE dest = 'main' AND lane = 2");
}

static void test_list_merges_lanes_and_held_by_seq(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    make_every_state(&t);
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_ANY),
        "1:published 2:sending 3:retry 4:pending 5:sending 7:pending"
        " 8:pending 9:dead 10:pending");
    temp_db_close(&t);
}

static void test_list_one_state_shows_no_other(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    make_every_state(&t);
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_PENDING),
        "4:pending 7:pending 8:pending 10:pending");
    assert_string_equal(
        LIST(&t, .state = POSTBAG_ROW_SENDING), "2:sending 5:sending");
    assert_string_equal(
        LIST(&t, .state = POSTBAG_ROW_PUBLISHED), "1:published");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_RETRY), "3:retry");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_DEAD), "9:dead");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_BEHIND), "");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_PENDING, .dest = "cloud"),
        "1:pending 2:pending 3:pending 4:pending 5:pending 6:pending"
        " 7:pending 8:pending 10:pending");
    temp_db_close(&t);
}

static void test_list_pages_and_prefix(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    make_every_state(&t);
    assert_string_equal(LIST(&t, .limit = 2), "1:published 2:sending");
    assert_string_equal(
        LIST(&t, .after_seq = 2, .limit = 2), "3:retry 4:pending");
    assert_string_equal(LIST(&t, .after_seq = 9), "10:pending");
    assert_string_equal(LIST(&t, .topic_prefix = "t/2"), "10:pending");
    temp_db_close(&t);
}

static void test_list_callback_ends_the_walk(void **state)
{
    (void)state;
    struct temp_db t;
    struct listing l = {.stop_after = 2};
    const struct postbag_row_filter filter = {.dest = "main"};

    temp_db_open(&t);
    make_every_state(&t);
    assert_int_equal(postbag__list_rows(&t.db, &filter, note_row, &l), 99);
    assert_string_equal(l.text, "1:published 2:sending");
    temp_db_close(&t);
}

/* ---- the list and the view --------------------------------------------- */

/* Two destinations, the second from row 4 on; rows of each in every state. */
static void make_two_views(struct temp_db *t)
{
    static const char *const held[] = {"retry", "behind", "suspect", "dead"};

    make_every_state(t);
    temp_db_put(t, 12, 0);
    temp_db_run(t,
        "UPDATE outbox_dest SET first_seq = 4 WHERE name = 'cloud';"
        "UPDATE outbox_cursor SET acked = 18, sent_hi = 20 WHERE lane = 0;"
        "UPDATE outbox_cursor SET acked = 4, sent_hi = 4"
        " WHERE dest = 'cloud' AND lane = 3;"
        "INSERT INTO outbox_acks(dest, lane, upto, at_ms) VALUES"
        " ('main', 0, 11, 1000), ('main', 0, 18, 2000),"
        " ('cloud', 0, 16, 3000);"
        "INSERT INTO outbox_lost VALUES ('main', 16, 17, 2, 22, 'ttl', 1, 5),"
        " ('cloud', 5, 11, 6, 60, 'detached', 1, 6)");
    for (int i = 0; i < 4; i++)
        temp_db_hold(t, 11 + i, held[i]);
    temp_db_run(t, "UPDATE outbox_held SET attempts = seq");
}

static int note_all(void *ctx, const struct postbag_row *row)
{
    struct listing *l = ctx;
    size_t len = strlen(l->text);

    (void)snprintf(l->text + len, sizeof(l->text) - len,
        "%lld|%s|%lld|%lld|%s|%lld ", (long long)row->seq,
        postbag_row_state_name(row->state), (long long)row->published_ms,
        (long long)row->attempts, row->error == NULL ? "-" : row->error,
        (long long)row->dead_ms);
    return 0;
}

static void read_view(
    struct temp_db *t, const char *dest, const char *where, struct listing *out)
{
    struct stmt s;
    char sql[512];

    memset(out, 0, sizeof(*out));
    (void)snprintf(sql, sizeof(sql),
        "SELECT group_concat(seq || '|' || state || '|'"
        " || ifnull(published_at, 0) || '|' || attempts || '|'"
        " || ifnull(last_error, '-') || '|' || ifnull(dead_lettered_at, 0)"
        " || ' ', '') FROM (SELECT * FROM outbox_status"
        "  WHERE dest = '%s' AND %s ORDER BY seq)",
        dest, where);
    assert_int_equal(postbag__prepare(&t->db, &s, sql), POSTBAG_OK);
    assert_int_equal(postbag__row(&s), 1);
    if (!postbag__col_is_null(&s, 0))
        (void)snprintf(
            out->text, sizeof(out->text), "%s", postbag__col_text(&s, 0));
    postbag__finalize(&s);
}

static void expect_list_is_the_view(
    struct temp_db *t, const char *dest, int state)
{
    const struct postbag_row_filter filter = {.dest = dest, .state = state};
    struct listing view;
    struct listing listed = {.text = ""};
    char where[64] = "state <> 'passed'";

    if (state != POSTBAG_ROW_ANY)
        (void)snprintf(where, sizeof(where), "state = '%s'",
            postbag_row_state_name(state));
    read_view(t, dest, where, &view);
    assert_int_equal(
        postbag__list_rows(&t->db, &filter, note_all, &listed), POSTBAG_OK);
    assert_string_equal(listed.text, view.text);
    /* so that the fixture has a row of each */
    if (strcmp(dest, "main") == 0)
        assert_string_not_equal(view.text, "");
}

static void test_list_and_view_agree_on_every_state(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    make_two_views(&t);
    for (int i = POSTBAG_ROW_ANY; i <= POSTBAG_ROW_DROPPED; i++) {
        expect_list_is_the_view(&t, "main", i);
        expect_list_is_the_view(&t, "cloud", i);
    }
    assert_string_equal(postbag_row_state_name(POSTBAG_ROW_DROPPED + 1), "?");
    temp_db_close(&t);
}

static int keep_reason(void *ctx, const struct postbag_row *row)
{
    (void)snprintf(ctx, 32, "%s", row->reason == NULL ? "-" : row->reason);
    return 0;
}

static void test_show_dropped_row_says_why(void **state)
{
    static const struct {
        const char *dest;
        int64_t seq;
        const char *reason;
    } all[] = {{"main", 16, "ttl"}, {"main", 15, "-"}, {"cloud", 5, "detached"},
        {"cloud", 8, "-"}, {"cloud", 12, "-"}, {"cloud", 16, "-"}};
    struct temp_db t;

    (void)state;
    temp_db_open(&t);
    make_two_views(&t);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char reason[32] = "";

        assert_int_equal(postbag__show_row(&t.db, all[i].dest, all[i].seq, NULL,
                             keep_reason, reason),
            POSTBAG_OK);
        assert_string_equal(reason, all[i].reason);
    }
    temp_db_close(&t);
}

static void test_show_and_view_agree_on_every_row(void **state)
{
    static const char *const dests[] = {"main", "cloud"};
    (void)state;
    struct temp_db t;
    struct listing view;
    char where[32];

    temp_db_open(&t);
    make_two_views(&t);
    for (int i = 0; i < 44; i++) {
        struct listing shown = {.text = ""};
        const char *dest = dests[i % 2];

        (void)snprintf(where, sizeof(where), "seq = %d", i / 2 + 1);
        read_view(&t, dest, where, &view);
        assert_int_equal(
            postbag__show_row(&t.db, dest, i / 2 + 1, NULL, note_all, &shown),
            view.text[0] == '\0' ? POSTBAG_ENOTFOUND : POSTBAG_OK);
        assert_string_equal(shown.text, view.text);
    }
    temp_db_close(&t);
}

static void test_list_dropped_is_not_published(void **state)
{
    (void)state;
    struct temp_db t;

    temp_db_open(&t);
    make_two_views(&t);
    assert_string_equal(
        LIST(&t, .state = POSTBAG_ROW_DROPPED), "16:dropped 17:dropped");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_DROPPED, .dest = "cloud"),
        "5:dropped 6:dropped 7:dropped 10:dropped 11:dropped");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_PASSED, .dest = "cloud"),
        "1:passed 2:passed 3:passed");
    assert_string_equal(LIST(&t, .state = POSTBAG_ROW_PASSED), "6:passed");
    temp_db_close(&t);
}

static int keep_payload(void *ctx, const struct postbag_row *row)
{
    char *out = ctx;

    (void)snprintf(out, 64, "%lld %s %u %.*s", (long long)row->seq,
        postbag_row_state_name(row->state), row->is_text, (int)row->payload_len,
        (const char *)row->payload);
    return 0;
}

static void test_show_finds_log_held_and_foreign_rows(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_id id = {.b = {1}};
    char out[64];

    temp_db_open(&t);
    make_every_state(&t);
    assert_int_equal(
        postbag__show_row(&t.db, "main", 1, NULL, keep_payload, out),
        POSTBAG_OK);
    assert_string_equal(out, "1 published 1 0123456789");
    assert_int_equal(
        postbag__show_row(&t.db, "main", 9, NULL, keep_payload, out),
        POSTBAG_OK);
    assert_string_equal(out, "9 dead 1 0123456789");
    assert_int_equal(
        postbag__show_row(&t.db, "main", 6, NULL, keep_payload, out),
        POSTBAG_OK);
    assert_string_equal(out, "6 passed 1 p");
    assert_int_equal(
        postbag__show_row(&t.db, "main", 11, NULL, keep_payload, out),
        POSTBAG_ENOTFOUND);
    assert_int_equal(
        postbag__show_row(&t.db, "main", 0, &id, keep_payload, out),
        POSTBAG_ENOTFOUND);
    temp_db_close(&t);
}

static int note_command(void *ctx, const struct postbag_inbox_row *row)
{
    char *out = ctx;

    (void)snprintf(out + strlen(out), 128 - strlen(out), "%lld:%s:%s:%.*s;",
        (long long)row->arrival, row->consumer, row->state, (int)row->id_len,
        (const char *)row->id);
    return 0;
}

static void test_inbox_list_filters_by_consumer_and_state(void **state)
{
    (void)state;
    struct temp_db t;
    struct postbag_inbox_filter f = {.limit = 0};
    char out[128] = "";

    temp_db_open(&t);
    temp_db_run(&t, "INSERT INTO inbox(consumer, id, state, received_ms) VALUES"
                    " ('door', 'a', 'done', 0), ('pump', x'62', 'due', 0),"
                    " ('door', 'c', 'due', 0)");
    assert_int_equal(
        postbag__list_inbox(&t.db, &f, note_command, out), POSTBAG_OK);
    assert_string_equal(out, "1:door:done:a;2:pump:due:b;3:door:due:c;");
    out[0] = '\0';
    f.consumer = "door";
    f.state = "due";
    assert_int_equal(
        postbag__list_inbox(&t.db, &f, note_command, out), POSTBAG_OK);
    assert_string_equal(out, "3:door:due:c;");
    temp_db_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_merges_lanes_and_held_by_seq),
        cmocka_unit_test(test_list_one_state_shows_no_other),
        cmocka_unit_test(test_list_pages_and_prefix),
        cmocka_unit_test(test_list_callback_ends_the_walk),
        cmocka_unit_test(test_list_and_view_agree_on_every_state),
        cmocka_unit_test(test_show_and_view_agree_on_every_row),
        cmocka_unit_test(test_show_dropped_row_says_why),
        cmocka_unit_test(test_list_dropped_is_not_published),
        cmocka_unit_test(test_show_finds_log_held_and_foreign_rows),
        cmocka_unit_test(test_inbox_list_filters_by_consumer_and_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
