/* SPDX-License-Identifier: MIT */
/* What is noted of a database, and what a note says of the one found. */
#include "witness_note.h"

#include "unit.h"

static struct witness_note note(
    int stream, int machine, uint64_t file, uint64_t path, int64_t newest)
{
    struct witness_note n = {.file = file, .path = path, .newest = newest};

    memset(n.stream, stream, sizeof(n.stream));
    memset(n.machine, machine, sizeof(n.machine));
    return n;
}

/* ---- text ---- */

static void test_witness_note_comes_back_as_it_was(void **state)
{
    const struct witness_note was = note(0xa0, 0x0f, UINT64_MAX,
        UINT64_C(0x0123456789abcdef), INT64_C(4000000000001));
    struct witness_note is;
    char text[WITNESS_NOTE_BYTES];
    size_t len = postbag__witness_format(&was, text);

    (void)state;
    assert_int_equal(len, strlen(text));
    assert_ok(postbag__witness_parse(text, &is));
    assert_memory_equal(is.stream, was.stream, 16);
    assert_memory_equal(is.machine, was.machine, 16);
    assert_true(
        is.file == was.file && is.path == was.path && is.newest == was.newest);
}

/* A power cut leaves what it likes. */
static void test_witness_note_any_part_is_none(void **state)
{
    const struct witness_note was = note(1, 2, 3, 4, 5);
    struct witness_note is;
    char text[WITNESS_NOTE_BYTES];
    size_t len = postbag__witness_format(&was, text);

    (void)state;
    for (size_t i = 0; i < len; i++) {
        char kept = text[i];

        text[i] = '\0';
        assert_int_equal(postbag__witness_parse(text, &is), POSTBAG_EINVAL);
        text[i] = 'x';
        assert_int_equal(postbag__witness_parse(text, &is), POSTBAG_EINVAL);
        text[i] = kept;
    }
    assert_ok(postbag__witness_parse(text, &is));
}

/* ---- judging ---- */

static void test_witness_note_judges(void **state)
{
    static const struct {
        const char *what;
        /* stream, machine, file, path, newest; left[0] < 0: nothing is left */
        int64_t here[5], record[3], left[5];
        enum witness_verdict verdict;
    } all[] = {
        {"as it was left", {1, 1, 1, 1, 9}, {1, 1, 1}, {1, 1, 1, 1, 9},
            WITNESS_SAME},
        {"it went on without a relay", {1, 1, 1, 1, 9}, {1, 1, 1},
            {1, 1, 1, 1, 5}, WITNESS_SAME},
        {"the witness was deleted", {1, 1, 1, 1, 9}, {1, 1, 1}, {-1},
            WITNESS_SAME},
        {"renamed", {1, 1, 1, 2, 9}, {1, 1, 1}, {-1}, WITNESS_SAME},
        {"renamed, and its witness", {1, 1, 1, 2, 9}, {1, 1, 1},
            {1, 1, 1, 1, 9}, WITNESS_SAME},
        {"loaded again from its dump", {1, 1, 2, 1, 9}, {1, 1, 1},
            {1, 1, 1, 1, 9}, WITNESS_SAME},
        {"an older copy in its place", {1, 1, 1, 1, 8}, {1, 1, 1},
            {1, 1, 1, 1, 9}, WITNESS_OLDER},
        {"an older copy moved there", {1, 1, 2, 1, 8}, {1, 1, 1},
            {1, 1, 1, 1, 9}, WITNESS_OLDER},
        {"a copy of before it was a copy", {1, 1, 1, 1, 9}, {1, 1, 1},
            {2, 1, 1, 1, 5}, WITNESS_OTHER},
        {"a copy beside it", {1, 1, 2, 2, 9}, {1, 1, 1}, {-1}, WITNESS_COPY},
        {"a copy of the folder", {1, 1, 2, 2, 9}, {1, 1, 1}, {1, 1, 1, 1, 9},
            WITNESS_COPY},
        {"a clone", {1, 2, 1, 1, 9}, {1, 1, 1}, {-1}, WITNESS_ELSEWHERE},
        {"a clone with all files", {1, 2, 1, 1, 9}, {1, 1, 1}, {1, 1, 1, 1, 9},
            WITNESS_ELSEWHERE},
        {"machine not known here", {1, 0, 1, 1, 9}, {1, 1, 1}, {1, 1, 1, 1, 9},
            WITNESS_SAME},
        {"machine not known there", {1, 1, 1, 1, 9}, {1, 0, 1}, {1, 0, 1, 1, 9},
            WITNESS_SAME},
        {"file not known here", {1, 1, 0, 1, 9}, {1, 1, 1}, {-1}, WITNESS_SAME},
        {"file not known there", {1, 1, 1, 1, 9}, {1, 1, 0}, {-1},
            WITNESS_SAME},
        {"never opened by a relay", {1, 1, 1, 1, 9}, {-1}, {-1}, WITNESS_NEW},
        {"made anew where one was", {1, 1, 1, 1, 0}, {-1}, {2, 1, 1, 1, 9},
            WITNESS_NEW},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        const int64_t *h = all[i].here;
        const int64_t *r = all[i].record;
        const int64_t *l = all[i].left;
        struct witness_note here =
            note((int)h[0], (int)h[1], (uint64_t)h[2], (uint64_t)h[3], h[4]);
        struct witness_note record =
            note((int)r[0], (int)r[1], (uint64_t)r[2], 0, 0);
        struct witness_note left =
            note((int)l[0], (int)l[1], (uint64_t)l[2], (uint64_t)l[3], l[4]);

        if (postbag__witness_judge(&here, r[0] < 0 ? NULL : &record,
                l[0] < 0 ? NULL : &left) != all[i].verdict)
            fail_msg("%s", all[i].what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_witness_note_comes_back_as_it_was),
        cmocka_unit_test(test_witness_note_any_part_is_none),
        cmocka_unit_test(test_witness_note_judges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
