/* SPDX-License-Identifier: MIT */
/* Dead commands through the public face. */
#include "postbag/admin.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct sim_port sim;
    struct postbag_admin *a;
};

static void open_admin(struct world *w, unsigned writable)
{
    struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = w->t.path,
        .port = &w->sim.port,
        .writable = writable};

    assert_ok(postbag_admin_open(&w->a, &c, NULL));
}

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    sim_port_init(&w.sim);
    open_admin(&w, 1);
    sql_run(w.t.app,
        "INSERT INTO inbox(consumer, id, state, payload, received_ms, attempts)"
        " VALUES ('c', 'a', 'dead', '', 1, 5), ('c', x'00ff', 'dead', '', 1, "
        "5),"
        " ('c', 'b', 'done', NULL, 1, 5)");
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag_admin_close(w->a);
    tempdb_remove(&w->t);
    return 0;
}

static int64_t in_state(struct world *w, const char *name)
{
    return sql_get(
        w->t.app, "SELECT count(*) FROM inbox WHERE state = '%s'", name);
}

static void test_admin_inbox_requeue_by_bytes_of_the_id(void **state)
{
    struct world *w = *state;
    struct postbag_inbox_choice c = {
        .struct_size = sizeof(c), .id = "\0\xff", .id_len = 2};
    int64_t n = 0;

    assert_ok(postbag_admin_inbox_requeue(w->a, &c, &n));
    assert_int_equal(n, 1);
    assert_int_equal(
        sql_get(w->t.app, "SELECT arrival FROM inbox WHERE state = 'due'"), 2);
    assert_ok(postbag_admin_inbox_requeue(w->a, NULL, &n));
    assert_int_equal(n, 1);
    assert_ok(postbag_admin_inbox_requeue(w->a, NULL, &n));
    assert_int_equal(n, 0);
}

static void test_admin_inbox_discard_one_then_all(void **state)
{
    struct world *w = *state;
    struct postbag_inbox_choice c = {.struct_size = sizeof(c), .arrival = 1};
    int64_t n = 0;

    assert_ok(postbag_admin_inbox_discard(w->a, &c, &n));
    assert_int_equal(n, 1);
    assert_int_equal(in_state(w, "done"), 2);
    assert_ok(postbag_admin_inbox_discard(w->a, NULL, NULL));
    assert_int_equal(in_state(w, "done"), 3);
}

static void test_admin_inbox_one_that_is_not_there_is_told(void **state)
{
    struct world *w = *state;
    struct postbag_inbox_choice c = {.struct_size = sizeof(c), .arrival = 3};

    assert_int_equal(
        postbag_admin_inbox_requeue(w->a, &c, NULL), POSTBAG_ENOTFOUND);
    assert_int_equal(
        postbag_admin_inbox_discard(w->a, &c, NULL), POSTBAG_ENOTFOUND);
    assert_has(postbag_admin_fault(w->a)->text, "no such command");
    assert_int_equal(in_state(w, "dead"), 2);
}

static void test_admin_inbox_arguments_are_checked(void **state)
{
    struct world *w = *state;
    struct postbag_inbox_choice c = {.struct_size = 0};

    assert_int_equal(
        postbag_admin_inbox_requeue(w->a, &c, NULL), POSTBAG_EVERSION);
    postbag_admin_close(w->a);
    open_admin(w, 0);
    assert_int_equal(
        postbag_admin_inbox_requeue(w->a, NULL, NULL), POSTBAG_ESTATE);
    assert_int_equal(
        postbag_admin_inbox_discard(w->a, NULL, NULL), POSTBAG_ESTATE);
    assert_int_equal(in_state(w, "dead"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_admin_inbox_requeue_by_bytes_of_the_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_admin_inbox_discard_one_then_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_admin_inbox_one_that_is_not_there_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_admin_inbox_arguments_are_checked, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
