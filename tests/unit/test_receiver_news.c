/* SPDX-License-Identifier: MIT */
/* What the receiver tells the log. */
#include "inbox_world.h"

static enum postbag_outcome never(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)cmd;
    (void)w;
    fail_msg("the receiver does not run handlers");
    return POSTBAG_RETRY;
}

static void keep_lines(void *ctx, const struct postbag_log_line *line)
{
    char *lines = ctx;

    (void)strcat(lines, line->text);
    (void)strcat(lines, "\n");
}

/* As many as come; of the last of them it tells at the end. */
static void test_receiver_tells_of_the_dead_once_a_minute(void **state)
{
    enum { MINUTE_US = 60 * 1000 * 1000 };
    static const char dead[] =
        "cannot be handled (no id, too large, or its version is refused), and"
        " kept among the dead: ";
    char expected[400];
    char lines[1000] = "";
    struct postbag_frame f = {.topic = "cmd/x", .payload_len = 1};
    struct inbox_world *w = world_new();

    (void)state;
    world_add(w, "b", "cmd/+", never, NULL);
    w->log = (struct log){.write = keep_lines, .ctx = lines};
    world_open_receiver(w, 100);
    assert_true(postbag__receiver_tell(w->receiver, 5) == INT64_MAX);
    for (char i = 'a'; i < 'h'; i++) {
        f.payload = &i;
        assert_ok(postbag__receiver_accept(w->receiver, 1, &f));
        if (i < 'f')
            (void)postbag__receiver_tell(w->receiver, i);
    }
    assert_true(postbag__receiver_tell(w->receiver, 200) == 'a' + MINUTE_US);
    assert_true(
        postbag__receiver_tell(w->receiver, 'a' + MINUTE_US) == INT64_MAX);
    assert_ok(world_deliver_on(w, "cmd/x", "1", NULL, "open"));
    assert_ok(world_deliver_on(w, "cmd/x", "1", NULL, "close"));
    postbag__receiver_close(w->receiver);
    w->receiver = NULL;
    (void)snprintf(expected, sizeof(expected),
        "%s1 commands\n%s6 commands\ncame again under the same id with other"
        " content, and kept among the dead: 1 commands\n",
        dead, dead);
    assert_string_equal(lines, expected);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receiver_tells_of_the_dead_once_a_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
