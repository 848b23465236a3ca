/* SPDX-License-Identifier: MIT */
/* What an admin is given and cannot be. */
#include "postbag/admin.h"
#include "postbag/linux.h"
#include "temp_db.h"

static int is_on_no_disk(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return POSTBAG_EIO;
}

static void test_admin_file_system_that_cannot_be_looked_at(void **state)
{
    struct postbag_port port = *postbag_linux_port();
    struct postbag_admin_config config = {.struct_size = sizeof(config),
        .db_path = "/tmp/none.db",
        .port = &port};
    struct postbag_fault why = {0};
    struct postbag_admin *a;

    (void)state;
    port.storage_check = is_on_no_disk;
    assert_int_equal(postbag_admin_init(&config, 0, &why), POSTBAG_EIO);
    assert_has(why.text, "cannot be looked at");
    assert_int_equal(postbag_admin_open(&a, &config, &why), POSTBAG_EIO);
    assert_null(a);
}

static int tell_no_row(void *ctx, const struct postbag_row *row)
{
    (void)ctx;
    (void)row;
    return 0;
}

static void test_admin_structs_and_states_that_cannot_be(void **state)
{
    struct postbag_row_filter filter = {.struct_size = sizeof(filter)};
    struct postbag_database d = {.struct_size = sizeof(d) + 1};
    struct postbag_admin_config config = {
        .struct_size = sizeof(config), .port = postbag_linux_port()};
    struct postbag_admin *a;
    struct temp_db t;

    (void)state;
    temp_db_open(&t);
    config.db_path = t.path;
    assert_ok(postbag_admin_open(&a, &config, NULL));
    assert_int_equal(postbag_admin_database(a, &d), POSTBAG_EVERSION);
    filter.state = -1;
    assert_int_equal(
        postbag_admin_list(a, &filter, tell_no_row, NULL), POSTBAG_EINVAL);
    filter.state = POSTBAG_ROW_DROPPED + 1;
    assert_int_equal(
        postbag_admin_list(a, &filter, tell_no_row, NULL), POSTBAG_EINVAL);
    assert_string_equal(postbag_row_state_name(-1), "?");
    assert_string_equal(postbag_row_state_name(filter.state), "?");
    postbag_admin_close(a);
    temp_db_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admin_file_system_that_cannot_be_looked_at),
        cmocka_unit_test(test_admin_structs_and_states_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
