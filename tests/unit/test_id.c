/* SPDX-License-Identifier: MIT */
/* Ids and their 36 characters. */
#include "sim_port.h"
#include "unit.h"

static const struct postbag_id sample = {{0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
    0x4c, 0xde, 0x80, 0xff, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x50}};
static const char sample_text[] = "01234567-89ab-4cde-80ff-fedcba987650";

static void test_id_format_writes_the_text(void **state)
{
    char text[37];

    (void)state;
    postbag_id_format(&sample, text);
    assert_string_equal(text, sample_text);
}

static void test_id_parse_reads_either_case(void **state)
{
    static const char *const texts[] = {sample_text,
        "01234567-89AB-4CDE-80FF-FEDCBA987650",
        "01234567-89aB-4CdE-80fF-FedCba987650"};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct postbag_id id = {{0}};

        assert_ok(postbag_id_parse(&id, texts[i]));
        assert_memory_equal(&id, &sample, sizeof(id));
    }
}

static void test_id_parse_refuses_other_texts_and_leaves_out_alone(void **state)
{
    static const char *const texts[] = {
        "",
        "0",
        "01234567-89ab-4cde-80ff-fedcba98765",   /* one short */
        "01234567-89ab-4cde-80ff-fedcba9876500", /* one long */
        "0123456789ab4cde80fffedcba987650",      /* no dashes */
        "{1234567-89ab-4cde-80ff-fedcba98765}",
        "01234567-89ab-4cde-80ff-fedcba98765g",
        "01234567-89ab-4cde-80ff-fedcba9876 0",
        "0123456-789ab-4cde-80ff-fedcba987650", /* a dash too early */
        "01234567+89ab-4cde-80ff-fedcba987650",
        "01234567-89ab-4cde-80ff0fedcba987650",
        "01234567-89ab-4cde-80ff-fedcba9876\xff\xff",
    };
    struct postbag_id id = sample;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (postbag_id_parse(&id, texts[i]) != POSTBAG_EINVAL)
            fail_msg("accepted: %s", texts[i]);
    assert_memory_equal(&id, &sample, sizeof(id));
}

static void test_id_null_arguments_are_refused(void **state)
{
    struct postbag_id id;
    struct sim_port sim;

    (void)state;
    sim_port_init(&sim);
    assert_int_equal(postbag_id_parse(NULL, sample_text), POSTBAG_EINVAL);
    assert_int_equal(postbag_id_parse(&id, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_id_new(NULL, &id), POSTBAG_EINVAL);
    assert_int_equal(postbag_id_new(&sim.port, NULL), POSTBAG_EINVAL);
}

static void test_id_new_is_the_ports_or_its_error(void **state)
{
    struct sim_port sim;
    struct postbag_id a;
    struct postbag_id b;

    (void)state;
    sim_port_init(&sim);
    assert_ok(postbag_id_new(&sim.port, &a));
    assert_ok(postbag_id_new(&sim.port, &b));
    assert_memory_not_equal(&a, &b, sizeof(a));
    sim.fails[SIM_UUID] = POSTBAG_EIO;
    assert_int_equal(postbag_id_new(&sim.port, &a), POSTBAG_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_format_writes_the_text),
        cmocka_unit_test(test_id_parse_reads_either_case),
        cmocka_unit_test(
            test_id_parse_refuses_other_texts_and_leaves_out_alone),
        cmocka_unit_test(test_id_null_arguments_are_refused),
        cmocka_unit_test(test_id_new_is_the_ports_or_its_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
