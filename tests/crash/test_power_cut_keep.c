/* SPDX-License-Identifier: MIT */
/* Power cuts while the housekeeper purges and checkpoints: see outbox_cut.h. */
#include "outbox_cut.h"

#include <sqlite3.h>

/* ---- scenes ------------------------------------------------------------ */

static int64_t rows(struct outbox_cut *b)
{
    return sql_get(b->before.t.app, "SELECT count(*) FROM outbox");
}

/* Rows go up to the newest running total, of which there is one in 256 rows. */
enum { SUMMED = 256 };

/* A relay that begins to keep house deletes what is settled at once. */
static void purge(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, c->seed % 2 == 0 ? "FULL" : "NORMAL");
    b.relay.options.ack_delay_ms = 50;
    outbox_cut_up(&b);
    outbox_cut_put(&b, 0, SUMMED - 3);
    for (int i = 0; i < 6; i++)
        outbox_cut_put(&b, i % 3, 1);
    outbox_cut_answer(&b, 2, 0x99);
    outbox_cut_settle(&b);
    outbox_cut_run_ms(&b, 5000);
    outbox_cut_restart(&b);
    assert_int_equal(rows(&b), 3);
    for (int i = 0; i < 4; i++)
        outbox_cut_put(&b, 0, 2);
    outbox_cut_answer(&b, b.relay.out->count - 1, 0);
    outbox_cut_settle(&b);
    outbox_cut_end(&b);
}

/* How often the WAL began anew: its checkpoint sequence number. */
static int times_anew(struct memdisk *disk)
{
    size_t len;
    const unsigned char *wal = memdisk_bytes(disk, "gw.db-wal", &len);

    assert_true(wal != NULL && len > 32);
    return wal[14] * 256 + wal[15];
}

/* Every few puts the WAL is copied to the file, and begins anew. */
static void checkpoint(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, c->seed % 2 == 0 ? "FULL" : "NORMAL");
    b.relay.options.checkpoint_frames = 16;
    outbox_cut_up(&b);
    for (int i = 0; i < 24; i++) {
        outbox_cut_put(&b, i % 3, 1);
        if (i % 4 == 3)
            outbox_cut_settle(&b);
        outbox_cut_run_ms(&b, 1000);
    }
    assert_true(times_anew(c->disk) > 1);
    outbox_cut_end(&b);
}

/* ---- every moment ------------------------------------------------------ */

static void test_power_cut_keeps_what_is_not_settled_from_a_purge(void **state)
{
    (void)state;
    power_cut_prove("F11_purge", purge, 10);
}

static void test_power_cut_in_a_checkpoint_loses_nothing(void **state)
{
    (void)state;
    power_cut_prove("F11_checkpoint", checkpoint, 10);
}

/* ---- what must be noticed ---------------------------------------------- */

/* Somebody says that all was settled, and no PUBACK had come. */
static void purge_too_much(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    b.relay.options.start_jitter_ms = 60000; /* nothing is sent */
    outbox_cut_up(&b);
    outbox_cut_put(&b, 0, SUMMED + 3);
    sql_run(
        b.before.t.app, "UPDATE outbox_cursor SET acked = 256, sent_hi = 256");
    outbox_cut_restart(&b);
    assert_int_equal(rows(&b), 3);
    outbox_cut_end(&b);
}

/* A checkpoint copies pages of which the WAL has nothing on the disk. */
static void checkpoint_without_a_sync(struct power_cut *c)
{
    struct outbox_cut b;

    outbox_cut_begin(&b, c, "FULL");
    memdisk_lie(c->disk, 1);
    for (int i = 0; i < 8; i++) {
        b.count++;
        sql_run(b.before.t.app,
            "BEGIN; INSERT INTO state VALUES (%d);"
            "INSERT INTO outbox(topic, payload) VALUES ('t', '%d ' ||"
            " hex(zeroblob(3000))); COMMIT; PRAGMA wal_checkpoint",
            b.count, b.count);
    }
    outbox_cut_up(&b);
    outbox_cut_end(&b);
}

static void test_power_cut_after_a_purge_of_unsettled_rows_is_noticed(
    void **state)
{
    (void)state;
    power_cut_control("F11_purge", "unsettled", purge_too_much, LOST);
}

static void test_power_cut_in_a_checkpoint_on_a_disk_that_lies_damages(
    void **state)
{
    (void)state;
    power_cut_control(
        "F11_checkpoint", "lying_disk", checkpoint_without_a_sync, DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_cut_keeps_what_is_not_settled_from_a_purge),
        cmocka_unit_test(test_power_cut_in_a_checkpoint_loses_nothing),
        cmocka_unit_test(
            test_power_cut_after_a_purge_of_unsettled_rows_is_noticed),
        cmocka_unit_test(
            test_power_cut_in_a_checkpoint_on_a_disk_that_lies_damages),
    };

    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
