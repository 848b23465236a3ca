/* SPDX-License-Identifier: MIT */
/* SQLite's clock, sleep and chance, which it has one of each of for all files:
 * see memdisk.h. */
#include "memdisk_parts.h"

static const int64_t epoch_ms = INT64_C(210866760000000); /* as Julian days */
static const int64_t standing_ms = INT64_C(1800000000000);

static struct {
    int64_t (*wall_ms)(void *ctx);
    void (*sleep_us)(void *ctx, int us);
    void *ctx;
} told;

static uint64_t luck;

void memdisk_clock(int64_t (*wall_ms)(void *ctx),
    void (*sleep_us)(void *ctx, int us), void *ctx)
{
    told.wall_ms = wall_ms;
    told.sleep_us = sleep_us;
    told.ctx = ctx;
}

/* splitmix64 */
uint64_t memdisk_draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* SQLite asks once, and spins it out. */
void memdisk_begin_luck(uint64_t seed)
{
    luck = seed;
    sqlite3_randomness(0, NULL);
}

static int fill_random(sqlite3_vfs *vfs, int len, char *out)
{
    (void)vfs;
    for (int i = 0; i < len; i++)
        out[i] = (char)(memdisk_draw(&luck) >> 56);
    return len;
}

static int sleep_us(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    if (told.sleep_us != NULL)
        told.sleep_us(told.ctx, us);
    return us;
}

static int time_ms(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    (void)vfs;
    *out = epoch_ms +
           (told.wall_ms == NULL ? standing_ms : told.wall_ms(told.ctx));
    return SQLITE_OK;
}

static int time_days(sqlite3_vfs *vfs, double *out)
{
    sqlite3_int64 ms;
    int rc = time_ms(vfs, &ms);

    *out = (double)ms / 86400000.0;
    return rc;
}

void memdisk_take_time(struct sqlite3_vfs *vfs)
{
    vfs->xRandomness = fill_random;
    vfs->xSleep = sleep_us;
    vfs->xCurrentTime = time_days;
    vfs->xCurrentTimeInt64 = time_ms;
}
