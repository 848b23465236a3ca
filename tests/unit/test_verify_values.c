/* SPDX-License-Identifier: MIT */
/* Each column with a value that it never has. */
#include "verify_world.h"

/* The second finding is that the trigger is gone. */
#define LOG(set) \
    "DROP TRIGGER outbox_frozen; UPDATE outbox SET " set " WHERE seq = 450"
#define HELD(set) "UPDATE outbox_held SET " set " WHERE seq = 20"
#define DEST(set) "UPDATE outbox_dest SET " set " WHERE name = 'main'"
#define CURSOR(set) \
    "UPDATE outbox_cursor SET " set " WHERE dest = 'main' AND lane = 0"
#define META(key, value) \
    "UPDATE outbox_meta SET value = " value " WHERE key = '" key "'"
#define INBOX(set) "UPDATE inbox SET " set " WHERE arrival = 1"

static void test_verify_values_of_destinations(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_dest SET name = 'a/b' WHERE name = 'cloud'",
            "dest a/b: name cannot be 'a/b'\n", 7},
        {"UPDATE outbox_dest SET name = '' WHERE name = 'cloud'",
            "dest : name cannot be ''\n", 7},
        {DEST("epoch = -1"), "dest main: epoch cannot be -1\n", 1},
        {DEST("owner = x'00'"), "dest main: owner cannot be X'00'\n", 1},
        {DEST("boot = x'00'"), "dest main: boot cannot be X'00'\n", 1},
        {DEST("boot = NULL"), "dest main: boot cannot be NULL\n", 1},
        {DEST("boot = NULL, lease_until = NULL"),
            "dest main: boot cannot be NULL\n", 1},
        {DEST("lease_until = -1"), "dest main: lease_until cannot be -1\n", 1},
        {DEST("first_seq = 0"), "dest main: first_seq cannot be 0\n", 1},
        {DEST("first_seq = 602"), "dest main: first_seq cannot be 602\n", 5},
        {DEST("archived = -1"), "dest main: archived cannot be -1\n", 1},
        {DEST("archived = 601"), "dest main: archived cannot be 601\n", 3},
        {CURSOR("sent_hi = 2601"),
            "cursor main: lane 0: sent_hi cannot be 2601\n", 1},
        {CURSOR("tried = -1"), "cursor main: lane 0: tried cannot be -1\n", 1},
        {CURSOR("tried = 601"), "cursor main: lane 0: tried cannot be 601\n",
            1},
        {CURSOR("deaths = -1"), "cursor main: lane 0: deaths cannot be -1\n",
            1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_values_of_the_log(void **state)
{
    static const struct spoiling all[] = {
        {LOG("seq = 0"), "log: row 0: seq cannot be 0\n", 6},
        {LOG("id = x'01'"), "log: row 450: id cannot be X'01'\n", 2},
        {LOG("topic = ''"), "log: row 450: topic cannot be ''\n", 4},
        {LOG("topic = '#'"), "log: row 450: topic cannot be '#'\n", 2},
        {LOG("topic = char(7)"), "log: row 450: topic cannot be", 2},
        {LOG("payload = 123"), "log: row 450: payload cannot be 123\n", 2},
        {LOG("key = char(0)"), "log: row 450: key cannot be", 2},
        {LOG("type = char(127)"), "log: row 450: type cannot be", 2},
        {LOG("content_type = char(31)"), "row 450: content_type cannot be", 2},
        {LOG("priority = 4"), "log: row 450: priority cannot be 4\n", 6},
        {LOG("ttl_ms = 0"), "log: row 450: ttl_ms cannot be 0\n", 2},
        {LOG("headers = '[]'"), "log: row 450: headers cannot be '[]'\n", 2},
        {LOG("headers = 'zz'"), "log: malformed JSON\n", 2},
        {"UPDATE outbox_sum SET seq = 601 WHERE seq = 560",
            "total: row 601: seq cannot be 601\n", 4},
        {"UPDATE outbox_sum SET bytes = -1 WHERE seq = 0",
            "total: row 0: bytes cannot be -1\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_values_of_held_rows(void **state)
{
    static const struct spoiling all[] = {
        {HELD("attempts = -1"), "held main: row 20: attempts cannot be -1\n",
            1},
        {HELD("due_boot = x'00'"),
            "held main: row 20: due_boot cannot be X'00'\n", 1},
        {HELD("due_boot = NULL"),
            "held main: row 20: due_boot cannot be NULL\n", 1},
        {HELD("due_ms = -1"), "held main: row 20: due_ms cannot be -1\n", 1},
        {HELD("error = hex(zeroblob(101))"),
            "held main: row 20: error cannot be '000", 1},
        {HELD("revived = -1"), "held main: row 20: revived cannot be -1\n", 1},
        {HELD("deaths = -1"), "held main: row 20: deaths cannot be -1\n", 1},
        {HELD("replay = 2"), "held main: row 20: replay cannot be 2\n", 1},
        {HELD("seq = 0"), "held main: row 0: seq cannot be 0\n", 1},
        {HELD("id = x'01'"), "held main: row 20: id cannot be X'01'\n", 1},
        {HELD("topic = '+'"), "held main: row 20: topic cannot be '+'\n", 1},
        {HELD("payload = 123"), "held main: row 20: payload cannot be 123\n",
            1},
        {HELD("headers = '7'"), "held main: row 20: headers cannot be '7'\n",
            1},
    };

    CHECK_ALL(*state, all);
}

/* A damaged page may have NULL anywhere: for a moment, the table lets it in. */
#define REDEFINE_HELD(seq, end, new_seq, new_end) \
    "PRAGMA writable_schema = 1;" \
    "UPDATE sqlite_schema SET sql = replace(replace(sql, '" seq "', '" new_seq \
    "'), '" end "', '" new_end "') WHERE name = 'outbox_held';" \
    "PRAGMA writable_schema = RESET;"

static void test_verify_values_of_a_row_without_name(void **state)
{
    static const struct spoiling all[] = {
        {REDEFINE_HELD("seq INTEGER NOT NULL", "seq)) STRICT", "seq INTEGER",
             "seq))") "UPDATE outbox_held SET seq = NULL, deaths = -1 WHERE "
                      "seq = 20;" REDEFINE_HELD("seq INTEGER", "seq))",
                          "seq INTEGER NOT NULL", "seq)) STRICT"),
            "held main: deaths cannot be -1\n", 4},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_values_of_what_became_of_rows(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_acks SET upto = 0",
            "acks main: row 0: upto cannot be 0\n", 1},
        {"UPDATE outbox_acks SET boot = x'00', mono_ms = 1",
            "acks main: row 300: boot cannot be X'00'\n", 1},
        {"UPDATE outbox_acks SET mono_ms = 1",
            "acks main: row 300: boot cannot be NULL\n", 1},
        {"UPDATE outbox_acks SET boot = zeroblob(16), mono_ms = -1",
            "acks main: row 300: mono_ms cannot be -1\n", 1},
        {"UPDATE outbox_late SET seq = 0",
            "late main: row 0: seq cannot be 0\n", 1},
        {"UPDATE outbox_late SET attempts = 0",
            "late main: row 299: attempts cannot be 0\n", 1},
        {"UPDATE outbox_lost SET reason = 'zz' WHERE lo = 10",
            "lost main: rows to 12: reason cannot be 'zz'\n", 1},
        {"UPDATE outbox_seen SET n = -1", "seen main: mark -1: n cannot be -1",
            1},
        {"UPDATE outbox_seen SET n = 64", "seen main: mark 64: n cannot be 64",
            1},
        {"UPDATE outbox_seen SET seq = 0", "mark 0: seq cannot be 0\n", 1},
        {"UPDATE outbox_seen SET seq = 601", "mark 0: seq cannot be 601\n", 1},
        {"UPDATE outbox_seen SET boot = x''", "mark 0: boot cannot be X''\n",
            1},
        {"UPDATE outbox_seen SET mono_ms = -1",
            "mark 0: mono_ms cannot be -1\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_values_of_options(void **state)
{
    static const struct spoiling all[] = {
        {META("stream", "zeroblob(15)"), "meta: stream cannot be X'00", 1},
        {META("stream", "NULL"), "meta: there is no stream\n", 1},
        {META("stream", "hex(zeroblob(8))"), "meta: stream cannot be '00", 1},
        {META("machine", "'zz'"), "meta: machine cannot be 'zz'\n", 1},
        {META("file", "'zz'"), "meta: file cannot be 'zz'\n", 1},
        {META("max_payload", "'zz'"), "meta: max_payload cannot be 'zz'\n", 1},
        {META("max_payload", "NULL"), "meta: there is no max_payload\n", 1},
        {META("max_rows", "'zz'"), "meta: max_rows cannot be 'zz'\n", 2},
        {META("max_rows", "-1"), "meta: max_rows cannot be -1\n", 2},
        {META("max_bytes", "'zz'"), "meta: max_bytes cannot be 'zz'\n", 1},
        {META("max_bytes", "0.5"), "meta: max_bytes cannot be 0.5\n", 1},
        {META("min_free_bytes", "'zz'"),
            "meta: min_free_bytes cannot be 'zz'\n", 1},
        {META("min_free_bytes", "-1"), "meta: min_free_bytes cannot be -1\n",
            1},
        {META("overflow", "'zz'"), "meta: overflow cannot be 'zz'\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_values_of_commands(void **state)
{
    static const struct spoiling all[] = {
        {INBOX("arrival = 0"), "inbox: command 0: arrival cannot be 0\n", 1},
        {INBOX("id = 7"), "inbox: command 1: id cannot be 7\n", 1},
        {INBOX("content_hash = x'01'"),
            "inbox: command 1: content_hash cannot be X'01'\n", 1},
        {INBOX("content_hash = NULL"),
            "inbox: command 1: content_hash cannot be NULL\n", 1},
        {INBOX("seen = 0"), "inbox: command 1: seen cannot be 0\n", 1},
        {INBOX("payload = 7"), "inbox: command 1: payload cannot be 7\n", 1},
        {"UPDATE inbox SET payload = 'x' WHERE state = 'done'",
            "inbox: command 2: payload cannot be 'x'\n", 1},
        {"UPDATE inbox SET content_type = 'a' WHERE state = 'done'",
            "inbox: command 2: content_type cannot be 'a'\n", 1},
        {"UPDATE inbox SET response_topic = 'a' WHERE state = 'done'",
            "inbox: command 2: response_topic cannot be 'a'\n", 1},
        {"UPDATE inbox SET correlation_data = x'00' WHERE state = 'done'",
            "inbox: command 2: correlation_data cannot be X'00'\n", 1},
        {"UPDATE inbox SET headers = '{}' WHERE state = 'done'",
            "inbox: command 2: headers cannot be '{}'\n", 1},
        {INBOX("result = 'ok'"), "inbox: command 1: result cannot be 'ok'\n",
            1},
        {"UPDATE inbox SET result = 7 WHERE state = 'done'",
            "inbox: command 2: result cannot be 7\n", 1},
        {INBOX("reply = '{}'"), "inbox: command 1: reply cannot be '{}'\n", 1},
        {"UPDATE inbox SET result = '', reply = '{' WHERE state = 'done'",
            "inbox: command 2: reply cannot be '{'\n", 1},
        {INBOX("attempts = -1"), "inbox: command 1: attempts cannot be -1\n",
            1},
        {INBOX("due_ms = 1"), "inbox: command 1: due_boot cannot be NULL\n", 1},
        {INBOX("due_boot = zeroblob(16), due_ms = -1"),
            "inbox: command 1: due_ms cannot be -1\n", 1},
        {INBOX("boot = x'01', mono_ms = 1"),
            "inbox: command 1: boot cannot be X'01'\n", 1},
        {INBOX("boot = zeroblob(16), mono_ms = -1"),
            "inbox: command 1: mono_ms cannot be -1\n", 1},
        {INBOX("headers = '[]'"), "inbox: command 1: headers cannot be '[]'\n",
            1},
        {"UPDATE inbox_sum SET forgotten = -1",
            "inbox: total: forgotten cannot be -1\n", 1},
        {"UPDATE inbox_sum SET max_rows = -1",
            "inbox: total: max_rows cannot be -1\n", 1},
        {"UPDATE inbox_sum SET max_bytes = -1",
            "inbox: total: max_bytes cannot be -1\n", 1},
    };

    CHECK_ALL(*state, all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_verify_values_of_destinations),
        TEST_IN(test_verify_values_of_the_log),
        TEST_IN(test_verify_values_of_held_rows),
        TEST_IN(test_verify_values_of_a_row_without_name),
        TEST_IN(test_verify_values_of_what_became_of_rows),
        TEST_IN(test_verify_values_of_options),
        TEST_IN(test_verify_values_of_commands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
