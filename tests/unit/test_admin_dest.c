/* SPDX-License-Identifier: MIT */
/* Destinations through the public face: who may remove one, and when. */
#include "lease.h"
#include "mem.h"
#include "postbag/admin.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct sim_port sim;
    struct postbag_admin *a;
};

static int set_up(void **state)
{
    static struct world w;
    struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = w.t.path,
        .port = &w.sim.port,
        .writable = 1};

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    sim_port_init(&w.sim);
    assert_ok(postbag_admin_open(&w.a, &c, NULL));
    assert_ok(postbag_admin_dest_add(w.a, "cloud", POSTBAG_FROM_NOW));
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

static int64_t count(struct world *w)
{
    return sql_get(w->t.app, "SELECT count(*) FROM outbox_dest");
}

static void test_admin_dest_of_a_relay_is_not_removed(void **state)
{
    struct world *w = *state;

    for (int is_second = 0; is_second < 2; is_second++) {
        char *path = postbag__lease_lock_path(w->t.path, "cloud", is_second);
        struct postbag_lock *lock;

        assert_ok(w->sim.port.lock_file(w->sim.port.ctx, path, &lock));
        assert_int_equal(
            postbag_admin_dest_remove(w->a, "cloud"), POSTBAG_ESTATE);
        assert_has(postbag_admin_fault(w->a)->text,
            "a relay owns destination cloud: stop it first");
        assert_int_equal(count(w), 2);
        w->sim.port.unlock_file(w->sim.port.ctx, lock);
        postbag__free(path);
    }
}

/* So that one of that name may be added again. */
static void test_admin_dest_removed_leaves_the_locks_free(void **state)
{
    struct world *w = *state;

    assert_ok(postbag_admin_dest_remove(w->a, "cloud"));
    assert_int_equal(count(w), 1);
    for (int is_second = 0; is_second < 2; is_second++) {
        char *path = postbag__lease_lock_path(w->t.path, "cloud", is_second);
        struct postbag_lock *lock;

        assert_ok(w->sim.port.lock_file(w->sim.port.ctx, path, &lock));
        w->sim.port.unlock_file(w->sim.port.ctx, lock);
        postbag__free(path);
    }
}

static void test_admin_dest_whose_lock_fails_is_not_removed(void **state)
{
    struct world *w = *state;

    w->sim.fails[SIM_LOCK_FILE] = POSTBAG_EIO;
    assert_int_equal(postbag_admin_dest_remove(w->a, "cloud"), POSTBAG_EIO);
    assert_int_equal(count(w), 2);
}

static void test_admin_dest_arguments_are_checked(void **state)
{
    struct world *w = *state;

    assert_int_equal(
        postbag_admin_dest_add(w->a, NULL, POSTBAG_FROM_NOW), POSTBAG_EINVAL);
    assert_int_equal(postbag_admin_dest_add(w->a, "x", (enum postbag_from)2),
        POSTBAG_EINVAL);
    assert_int_equal(
        postbag_admin_dest_add(w->a, "a/b", POSTBAG_FROM_NOW), POSTBAG_EINVAL);
    assert_int_equal(postbag_admin_dest_remove(w->a, NULL), POSTBAG_EINVAL);
    assert_int_equal(
        postbag_admin_dest_remove(w->a, "../x"), POSTBAG_ENOTFOUND);
    assert_int_equal(count(w), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_admin_dest_of_a_relay_is_not_removed),
        TEST_IN(test_admin_dest_removed_leaves_the_locks_free),
        TEST_IN(test_admin_dest_whose_lock_fails_is_not_removed),
        TEST_IN(test_admin_dest_arguments_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
