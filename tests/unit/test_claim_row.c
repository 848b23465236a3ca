/* SPDX-License-Identifier: MIT */
/*
 * What stands in a request's row: an id of any length, as a command's would,
 * and when it was finished, whatever the clocks said at its claim.
 */
#include <stdlib.h>

#include "claim_desk.h"

/* A desk, and the clocks that its writer sees. */
struct office {
    struct desk desk;
    struct postbag_port port;
    uint8_t boot;
    int64_t wall_ms, mono_ms;
};

static int64_t wall_ms(void *ctx)
{
    return ((struct office *)ctx)->wall_ms;
}

static int64_t mono_us(void *ctx)
{
    return ((struct office *)ctx)->mono_ms * 1000;
}

static int boot_id(void *ctx, uint8_t out[16])
{
    memset(out, ((struct office *)ctx)->boot, 16);
    return POSTBAG_OK;
}

/* As after a restart of the machine. */
static void boot(struct office *o)
{
    struct postbag_writer_config c = {.struct_size = sizeof(c)};

    if (o->boot++ > 0)
        desk_leave(&o->desk);
    o->mono_ms = 1000;
    o->desk.db = tempdb_connect(&o->desk.t);
    c.db = o->desk.db;
    c.port = &o->port;
    (void)sqlite3_busy_timeout(c.db, 60000);
    assert_ok(postbag_writer_open(&o->desk.w, &c, NULL));
}

static int set_up(void **state)
{
    struct office *o = calloc(1, sizeof(*o));

    assert_non_null(o);
    desk_make(&o->desk);
    o->port = *postbag_linux_port();
    o->port.ctx = o;
    o->port.wall_ms = wall_ms;
    o->port.mono_us = mono_us;
    o->port.boot_id = boot_id;
    o->wall_ms = INT64_C(1800000000000);
    boot(o);
    *state = o;
    return 0;
}

static int tear_down(void **state)
{
    struct office *o = *state;

    assert_sound(&o->desk.t);
    desk_leave(&o->desk);
    tempdb_remove(&o->desk.t);
    free(o);
    return 0;
}

/* ---- when it was finished ----------------------------------------------- */

static void begin_request(struct office *o)
{
    assert_int_equal(desk_look(&o->desk, "a", ""), POSTBAG_CLAIM_NEW);
}

static void finish_request(struct office *o)
{
    struct desk *d = &o->desk;

    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "201", 3));
    assert_ok(postbag_commit(d->w));
}

static void expect_moment(struct office *o, const char *moment)
{
    assert_string_equal(
        sql_text(o->desk.db,
            "SELECT hex(substr(boot, 1, 1)), mono_ms, processed_ms FROM inbox"),
        moment);
}

/* Else it would be forgotten as long after its claim as others after their
 * end. */
static void test_claim_row_is_as_old_as_its_end(void **state)
{
    struct office *o = *state;

    o->wall_ms = 60000; /* 1970 */
    begin_request(o);
    expect_moment(o, "01|1000|NULL");
    o->mono_ms = INT64_C(86400000);
    finish_request(o);
    expect_moment(o, "01|86400000|60000");
}

static void test_claim_row_that_was_finished_in_another_boot(void **state)
{
    struct office *o = *state;

    begin_request(o);
    boot(o);
    o->mono_ms = 500;
    finish_request(o);
    expect_moment(o, "02|500|1800000000000");
}

/* ---- ids ---------------------------------------------------------------- */

static void test_claim_row_of_a_long_id_has_its_hash(void **state)
{
    struct desk *d = &((struct office *)*state)->desk;
    char id[301];

    memset(id, 'x', sizeof(id));
    id[255] = '\0';
    assert_int_equal(desk_look(d, id, ""), POSTBAG_CLAIM_NEW);
    assert_int_equal(
        sql_get(d->db, "SELECT typeof(id) = 'text' AND length(id) = 255"
                       " FROM inbox"),
        1);
    id[255] = 'x';
    id[300] = '\0';
    assert_int_equal(desk_look(d, id, ""), POSTBAG_CLAIM_NEW);
    assert_int_equal(desk_look(d, id, ""), POSTBAG_CLAIM_IN_PROGRESS);
    assert_int_equal(desk_look(d, id, "else"), POSTBAG_CLAIM_CONFLICT);
    /* not the same up to its end */
    id[299] = 'y';
    assert_int_equal(desk_look(d, id, ""), POSTBAG_CLAIM_NEW);
    id[299] = 'x';
    assert_string_equal(
        sql_text(d->db, "SELECT typeof(id), lower(hex(id)) FROM inbox"
                        " WHERE seen = 2"),
        "blob|"
        "0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_claim_row_is_as_old_as_its_end),
        TEST_IN(test_claim_row_that_was_finished_in_another_boot),
        TEST_IN(test_claim_row_of_a_long_id_has_its_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
