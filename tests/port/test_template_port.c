/* SPDX-License-Identifier: MIT */
/* The template as it lies: complete, and refusing all work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "port_template.h"

static void test_template_table_has_all_that_is_not_optional(void **state)
{
    const struct postbag_port *p = postbag_template_port();

    (void)state;
    assert_int_equal(p->struct_size, sizeof(*p));
    assert_true(p->wall_ms && p->mono_us && p->boot_id);
    assert_true(p->random && p->uuid);
    assert_true(p->wake_new && p->wake_free && p->wake && p->wait);
    assert_true(p->gate_new && p->gate_free && p->gate_enter && p->gate_leave);
    assert_true(p->lock_file && p->unlock_file);
    assert_true(p->replace_file && p->storage_check);
}

static void test_template_not_filled_fails_loudly(void **state)
{
    const struct postbag_port *p = postbag_template_port();
    struct postbag_wake *wake = NULL;
    struct postbag_gate *gate = NULL;
    struct postbag_lock *lock = NULL;
    uint8_t id[16];

    (void)state;
    assert_int_equal(p->boot_id(p->ctx, id), POSTBAG_EIO);
    assert_int_equal(p->uuid(p->ctx, id), POSTBAG_EIO);
    assert_int_equal(p->wake_new(p->ctx, &wake), POSTBAG_EIO);
    assert_int_equal(p->gate_new(p->ctx, &gate), POSTBAG_EIO);
    assert_int_equal(p->lock_file(p->ctx, "x", &lock), POSTBAG_EIO);
    assert_int_equal(p->storage_check(p->ctx, "x"), POSTBAG_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template_table_has_all_that_is_not_optional),
        cmocka_unit_test(test_template_not_filled_fails_loudly),
    };

    return cmocka_run_group_tests_name("port template", tests, NULL, NULL);
}
