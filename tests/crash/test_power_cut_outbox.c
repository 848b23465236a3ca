/* SPDX-License-Identifier: MIT */
/* Power cuts while an application puts and a relay sends: see outbox_cut.h. */
#include "outbox_cut.h"

#include <sqlite3.h>

/* ---- scenes ------------------------------------------------------------ */

static void puts_only(struct power_cut *c, const char *synchronous)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, synchronous);
    outbox_cut_up(&b);
    for (int i = 0; i < 12; i++)
        outbox_cut_put(&b, i % 3, 1 + i % CUT_PER_TRANSACTION);
    outbox_cut_end(&b);
}

static void put_full(struct power_cut *c)
{
    puts_only(c, "FULL");
}

static void put_normal(struct power_cut *c)
{
    puts_only(c, "NORMAL");
}

/* PUBACKs out of order, more put in between, the cursor is saved. */
static void acknowledge(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, c->seed % 2 == 0 ? "FULL" : "NORMAL");
    b.relay.options.ack_delay_ms = 50;
    outbox_cut_up(&b);
    for (int i = 0; i < 5; i++)
        outbox_cut_put(&b, i % 4, 1);
    outbox_cut_answer(&b, 1, 0);
    outbox_cut_answer(&b, 0, 0);
    outbox_cut_run_ms(&b, 1000);
    for (int i = 0; i < 3; i++)
        outbox_cut_put(&b, 0, 2);
    outbox_cut_settle(&b);
    outbox_cut_run_ms(&b, 1000);
    outbox_cut_put(&b, 1, 1);
    outbox_cut_end(&b);
}

/* One comes again, one is dead, and others of their keys wait behind. */
static void hold(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    outbox_cut_up(&b);
    for (int i = 0; i < 6; i++)
        outbox_cut_put(&b, 1 + i % 2, 1);
    outbox_cut_answer(&b, 0, 0x97);
    outbox_cut_answer(&b, 1, 0x99);
    outbox_cut_put(&b, 1, 1);
    outbox_cut_run_ms(&b, 3000);
    outbox_cut_put(&b, 2, 1);
    outbox_cut_settle(&b);
    outbox_cut_run_ms(&b, 3000);
    outbox_cut_put(&b, 0, 1);
    outbox_cut_end(&b);
}

static void requeue(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    outbox_cut_up(&b);
    for (int i = 0; i < 4; i++)
        outbox_cut_put(&b, i % 3, 1);
    outbox_cut_answer(&b, 0, 0x99);
    outbox_cut_answer(&b, 1, 0x90);
    outbox_cut_settle(&b);
    outbox_cut_run_ms(&b, 2000);
    outbox_cut_requeue(&b);
    outbox_cut_put(&b, 1, 1);
    outbox_cut_settle(&b);
    outbox_cut_run_ms(&b, 2000);
    outbox_cut_put(&b, 2, 1);
    outbox_cut_end(&b);
}

/* ---- every moment ------------------------------------------------------ */

static void test_power_cut_keeps_what_a_full_writer_committed(void **state)
{
    (void)state;
    power_cut_prove("F11_put", put_full, 10);
}

static void test_power_cut_undoes_nothing_of_a_normal_writer_that_was_sent(
    void **state)
{
    (void)state;
    power_cut_prove("F11_sent", put_normal, 5);
}

static void test_power_cut_sends_again_what_no_puback_is_known_of(void **state)
{
    (void)state;
    power_cut_prove("F11_ack", acknowledge, 10);
}

static void test_power_cut_keeps_what_is_dead_and_what_waits(void **state)
{
    (void)state;
    power_cut_prove("F11_hold", hold, 10);
}

static void test_power_cut_keeps_what_an_operator_requeued(void **state)
{
    (void)state;
    power_cut_prove("F11_requeue", requeue, 10);
}

/* ---- what must be noticed ---------------------------------------------- */

/* Promised all the same. */
static void break_promise(struct power_cut *c, const char *synchronous)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, synchronous);
    b.is_promised = 1;
    outbox_cut_up(&b);
    for (int i = 0; i < 12; i++)
        outbox_cut_put(&b, i % 3, 1);
    outbox_cut_end(&b);
}

static void normal_writer(struct power_cut *c)
{
    break_promise(c, "NORMAL");
}

static void lying_disk(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    memdisk_lie(c->disk, 1);
    outbox_cut_up(&b);
    for (int i = 0; i < 12; i++)
        outbox_cut_put(&b, i % 3, 1);
    outbox_cut_end(&b);
}

static void send_without_a_sync(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "NORMAL");
    b.relay.options.skip_sync_before_send = 1;
    outbox_cut_up(&b);
    for (int i = 0; i < 12; i++)
        outbox_cut_put(&b, i % 3, 1);
    outbox_cut_end(&b);
}

/* The state in one transaction, its message in the next. */
static void two_transactions(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    outbox_cut_up(&b);
    for (int number = 1; number < 6; number++) {
        sql_run(b.before.t.app, "INSERT INTO state VALUES (%d)", number);
        sql_run(b.before.t.app,
            "INSERT INTO outbox(topic, payload) VALUES ('t', '%d')", number);
        b.count++;
    }
    outbox_cut_end(&b);
}

/* Without a sync a checkpoint copies what the WAL does not have. */
static void synchronous_off(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "OFF");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 6; i++) {
            b.count++;
            sql_run(b.before.t.app,
                "BEGIN; INSERT INTO state VALUES (%d);"
                "INSERT INTO outbox(topic, payload) VALUES ('t', '%d ' ||"
                " hex(zeroblob(3000))); COMMIT",
                b.count, b.count);
        }
        sql_run(b.before.t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    outbox_cut_up(&b);
    outbox_cut_end(&b);
}

static void test_power_cut_of_a_normal_writer_loses_commits(void **state)
{
    (void)state;
    power_cut_control("F11_put", "normal_writer", normal_writer, LOST);
}

static void test_power_cut_of_a_disk_that_lies_is_noticed(void **state)
{
    (void)state;
    power_cut_control("F11_put", "lying_disk", lying_disk, LOST);
}

static void test_power_cut_after_a_send_without_a_sync_is_noticed(void **state)
{
    (void)state;
    power_cut_control(
        "F11_sent", "no_sync_before_send", send_without_a_sync, PHANTOM);
}

static void test_power_cut_between_state_and_message_is_noticed(void **state)
{
    (void)state;
    power_cut_control("F11_put", "two_transactions", two_transactions, APART);
}

static void test_power_cut_with_synchronous_off_damages(void **state)
{
    (void)state;
    power_cut_control("F11_put", "synchronous_off", synchronous_off, DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_keeps_what_a_full_writer_committed),
        cmocka_unit_test(
            test_power_cut_undoes_nothing_of_a_normal_writer_that_was_sent),
        cmocka_unit_test(test_power_cut_sends_again_what_no_puback_is_known_of),
        cmocka_unit_test(test_power_cut_keeps_what_is_dead_and_what_waits),
        cmocka_unit_test(test_power_cut_keeps_what_an_operator_requeued),
        cmocka_unit_test(test_power_cut_of_a_normal_writer_loses_commits),
        cmocka_unit_test(test_power_cut_of_a_disk_that_lies_is_noticed),
        cmocka_unit_test(test_power_cut_after_a_send_without_a_sync_is_noticed),
        cmocka_unit_test(test_power_cut_between_state_and_message_is_noticed),
        cmocka_unit_test(test_power_cut_with_synchronous_off_damages),
    };

    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
