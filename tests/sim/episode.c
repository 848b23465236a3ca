/* SPDX-License-Identifier: MIT */
/* See episode.h. */
#include "episode.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "invariants.h"
#include "memdisk.h"

enum { REST_STEPS = 60000 };

/* ---- what an episode is like ---- */

static uint32_t one_of(struct luck *l, const uint32_t *values, uint32_t count)
{
    return values[luck_below(l, count)];
}

#define ONE_OF(luck, ...) \
    one_of(luck, (const uint32_t[]){__VA_ARGS__}, \
        sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* Bounds that are met seldom in the field are small here. */
static void draw_config(struct luck *l, struct postbag_config *c)
{
    c->run_dir = "none";
    c->reply_topics = "reply/#";
    c->window = ONE_OF(l, 16, 16, 20, 64);
    c->window_bytes = ONE_OF(l, 1024, 4096, 65536);
    c->lane_share = ONE_OF(l, 2, 8);
    c->ack_batch = ONE_OF(l, 1, 2, 8, 64);
    c->ack_delay_ms = ONE_OF(l, 1, 50, 1000);
    c->connect_timeout_ms = ONE_OF(l, 100, 1000);
    c->ack_timeout_ms = ONE_OF(l, 2000, 5000);
    c->reconnect_base_ms = ONE_OF(l, 10, 100, 1000);
    c->reconnect_cap_ms = ONE_OF(l, 1000, 5000, 20000);
    c->stable_ms = ONE_OF(l, 1, 1000);
    c->retry_base_ms = ONE_OF(l, 10, 100, 1000);
    c->retry_cap_ms = ONE_OF(l, 1000, 5000, 30000);
    c->max_attempts = ONE_OF(l, 1, 2, 3, 6);
    c->held_max_rows = ONE_OF(l, 1, 5, 10000);
    c->held_max_per_key = ONE_OF(l, 1, 3, 1000);
    c->lease_ms = ONE_OF(l, 1000, 3000);
    c->checkpoint_frames = ONE_OF(l, 16, 50, 250);
    c->poll_ms = ONE_OF(l, 1000, 5000);
    c->inbox_accept_ms = ONE_OF(l, 1, 20, 100);
    if (luck_hits(l, 400))
        c->max_rows = ONE_OF(l, 10, 30);
    if (luck_hits(l, 500))
        c->overflow = "drop_oldest";
}

static void draw(struct params *p, struct luck *l)
{
    for (int i = 0; i < FAULTS; i++)
        p->rates[i] =
            luck_hits(l, 500) ? 0 : sim_fault_rates[i] * ONE_OF(l, 1, 1, 2, 3);
    p->steps = ONE_OF(l, 200, 400, 800);
    p->processes = ONE_OF(l, 1, 1, 2, 2, 3);
    p->keys = ONE_OF(l, 0, 1, 2, 5);
    p->page_size = ONE_OF(l, 512, 1024, 4096);
    p->sector = ONE_OF(l, 512, 4096);
    p->most_messages = ONE_OF(l, 20, 100, 300, 1000);
    p->batch = ONE_OF(l, 1, 4, 4, 40);
    p->max_commands = ONE_OF(l, 0, 10, 40, 100);
    p->command_rate = 4;
    p->leaps = 10;
    p->has_plain_writers = luck_hits(l, 500);
    p->has_operator = 1;
    p->is_full_writer = luck_hits(l, 600);
    p->ttl_ms = ONE_OF(l, 0, 0, 1000, 20000);
    p->coalesces = ONE_OF(l, 0, 0, 100, 500);
    p->urgent = ONE_OF(l, 0, 100, 500);
    draw_config(l, &p->config);
}

/* ---- the beginning and the end ---- */

static void sleep_us(void *ctx, int us)
{
    struct world *w = ctx;

    w->now_us += us;
}

static struct world *begin(uint64_t seed, episode_tune tune)
{
    struct world *w = calloc(1, sizeof(*w));

    w->seed = seed;
    w->luck.state = seed;
    w->hash = UINT64_C(14695981039346656037);
    w->is_traced = getenv("POSTBAG_SIM_TRACE") != NULL;
    draw(&w->p, &w->luck);
    if (tune != NULL)
        tune(&w->p, &w->luck);
    w->now_us = INT64_C(1000000000);
    w->boot_us = w->now_us - luck_between(&w->luck, 1000, 60000) * 1000;
    w->boot = 1;
    w->wall_offset_ms = luck_hits(&w->luck, 700) ? INT64_C(1800000000000) : 0;
    w->disk = memdisk_new(luck_next(&w->luck));
    memdisk_sector(w->disk, w->p.sector);
    memdisk_lie(w->disk, w->p.disk_lies);
    memdisk_clock(world_wall_ms, sleep_us, w);
    w->seen.version = -1;
    w->bystander.world = w;
    port_init(&w->bystander);
    for (int i = 0; i < PROCESSES; i++) {
        w->processes[i].world = w;
        w->processes[i].index = i;
        w->processes[i].starts_us = w->now_us + i * 1000;
        w->processes[i].firmware.retry = -1;
        port_init(&w->processes[i]);
    }
    return w;
}

static void end(struct world *w)
{
    for (int i = 0; i < PROCESSES; i++)
        if (w->processes[i].is_alive)
            process_kill(&w->processes[i], "at the end");
    look_close(w);
    stranger_leave(w);
    memdisk_clock(NULL, NULL, NULL);
    memdisk_free(w->disk);
    free(w);
}

/* ---- chaos ---- */

static struct process *some_process(struct world *w)
{
    struct process *p = &w->processes[luck_below(&w->luck, w->p.processes)];

    return p->is_alive && p->thaws_us == 0 ? p : NULL;
}

static void strike_process(struct world *w, enum sim_mark fault)
{
    struct process *p = some_process(w);

    if (p == NULL)
        return;
    happened(w, fault);
    if (fault == KILL)
        process_kill(p, "between two calls");
    else if (fault == RESTART)
        process_stop(p);
    else
        p->thaws_us = w->now_us + luck_between(&w->luck, 1, 10000) * 1000;
    if (fault == FREEZE)
        say(w, "p%d is stopped", p->index);
}

static void strike_clock(struct world *w, enum sim_mark fault)
{
    static const int64_t jumps[] = {-INT64_C(3600000), INT64_C(3600000),
        INT64_C(315360000000), -INT64_C(1700000000000)};

    w->wall_offset_ms += jumps[luck_below(&w->luck, 4)];
    if (w->wall_offset_ms + w->now_us / 1000 < 0)
        w->wall_offset_ms = 0;
    happened(w, fault);
    say(w, "the wall clock jumps");
}

static void strike_disk(struct world *w, enum sim_mark fault)
{
    int64_t until_us = w->now_us + luck_between(&w->luck, 1, 5000) * 1000;

    if (fault == IO_DOWN)
        w->io_heals_us = until_us;
    else
        w->room_heals_us = until_us;
    if (fault == DISK_FULL)
        memdisk_room(w->disk, 1);
    happened(w, fault);
    w->disruptions++;
    say(w, "disk: %s", sim_mark_texts[fault]);
}

static void strike_power(struct world *w, enum sim_mark fault)
{
    happened(w, fault);
    process_cut_power(w);
    world_cut(w);
}

/* Those of KILL_IN_CALL and the like have occasions of their own: process.c. */
static void (*const strike[FAULTS])(struct world *w, enum sim_mark fault) = {
    [KILL] = strike_process,
    [RESTART] = strike_process,
    [FREEZE] = strike_process,
    [POWER_CUT] = strike_power,
    [WALL_JUMP] = strike_clock,
    [IO_DOWN] = strike_disk,
    [DISK_FULL] = strike_disk,
    [LONG_READ] = stranger_begin,
    [LONG_LOCK] = stranger_begin,
    [HANG_UP] = broker_strike,
    [BLACK_HOLE] = broker_strike,
    [DEAF] = broker_strike,
    [OUTAGE] = broker_strike,
    [SWIZZLE] = broker_strike,
    [SESSION_LOSS] = broker_strike,
    [COMMAND_AGAIN] = broker_strike,
};

static void maybe_strike(struct world *w)
{
    for (int i = 0; i < FAULTS; i++)
        if (strike[i] != NULL && strikes(w, (enum sim_mark)i))
            strike[i](w, (enum sim_mark)i);
}

static void send_command(struct world *w)
{
    struct command *c;

    if (w->book.command_count >= (int)w->p.max_commands)
        return;
    c = &w->book.commands[w->book.command_count++];
    *c = (struct command){.is_sent = 1,
        .key = (int)luck_below(&w->luck, w->p.keys + 1),
        .consumer = (int)luck_below(&w->luck, CONSUMERS)};
    say(w, "command c%d", w->book.command_count - 1);
}

/* ---- time ---- */

static void wake_up(struct world *w)
{
    if (w->io_heals_us != 0 && w->now_us >= w->io_heals_us)
        w->io_heals_us = 0;
    if (w->room_heals_us != 0 && w->now_us >= w->room_heals_us) {
        w->room_heals_us = 0;
        memdisk_room(w->disk, 0);
    }
    stranger_end(w);
    for (unsigned i = 0; i < w->p.processes; i++) {
        struct process *p = &w->processes[i];

        if (p->thaws_us != 0 && w->now_us >= p->thaws_us)
            p->thaws_us = 0;
        if (!p->is_alive && w->now_us >= p->starts_us)
            process_start(p);
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

static int64_t next_us(const struct world *w)
{
    int64_t at = broker_next_us(w);

    for (unsigned i = 0; i < w->p.processes; i++) {
        const struct process *p = &w->processes[i];

        if (p->is_alive && p->bag == NULL)
            continue;
        if (p->is_alive && p->thaws_us == 0)
            at = earlier(at, earlier(p->next_us, p->work_us));
        else
            at = earlier(at, p->is_alive ? p->thaws_us : p->starts_us);
    }
    return at;
}

/* 1: some relay, or its handlers, had something to do. */
static int run_what_is_due(struct world *w)
{
    for (unsigned i = 0; i < w->p.processes; i++) {
        struct process *p = &w->processes[i];

        if (!p->is_alive || p->thaws_us != 0)
            continue;
        if (p->bag != NULL && p->next_us <= w->now_us) {
            w->stepped = p;
            process_step(p);
            return 1;
        }
        if (p->bag != NULL && p->work_us <= w->now_us) {
            process_work(p);
            return 1;
        }
    }
    return 0;
}

static void pass_time(struct world *w, int64_t most_us)
{
    int64_t at = next_us(w);

    if (at > w->now_us)
        w->now_us = earlier(at, w->now_us + most_us);
}

static void begin_step(struct world *w)
{
    w->steps++;
    w->stepped = NULL;
    w->was_nested = 0;
    w->nested_owner = NULL;
    wake_up(w);
    broker_step(w);
}

/* Somebody does something, or time passes. */
static void act(struct world *w)
{
    uint32_t what = luck_below(&w->luck, 100);
    struct process *p = some_process(w);

    if (what < 40 && p != NULL)
        firmware_step(p);
    else if (what < 41 && w->p.has_operator)
        operator_step(w);
    else if (what < 41 + w->p.command_rate)
        send_command(w);
    else
        pass_time(w, luck_below(&w->luck, w->p.leaps) == 0 ? 5000000 : 50000);
}

static void chaos_step(struct world *w)
{
    begin_step(w);
    maybe_strike(w);
    if (run_what_is_due(w))
        check_step(w);
    act(w);
}

/* ---- rest ---- */

static void heal(struct world *w)
{
    say(w, "healed");
    w->is_healed = 1;
    w->sent_before_healed = w->broker.publishes;
    w->waited_before_healed = (uint64_t)w->seen.waiting;
    for (unsigned i = 0; w->p.has_no_relay && i < w->p.processes; i++)
        if (w->processes[i].is_alive)
            process_kill(&w->processes[i], "to begin with a relay");
    w->io_heals_us = w->room_heals_us = 0;
    memdisk_room(w->disk, 0);
    if (w->wall_offset_ms < INT64_C(1700000000000))
        w->wall_offset_ms = INT64_C(1800000000000);
    broker_heal(w);
}

static int is_at_rest(const struct world *w)
{
    const struct book *b = &w->book;

    if (!w->seen.is_fresh && w->seen.db == NULL)
        return 0;
    for (unsigned i = 0; i < w->p.processes; i++)
        if (!w->processes[i].is_alive || w->processes[i].firmware.txn >= 0 ||
            w->processes[i].firmware.retry >= 0)
            return 0;
    for (int i = 0; i < b->command_count; i++)
        if (!b->commands[i].is_acked ||
            (!b->commands[i].is_done && !b->commands[i].is_dead))
            return 0;
    return w->seen.waiting == 0 && w->seen.held == 0;
}

static void rest_step(struct world *w)
{
    struct process *p = some_process(w);

    begin_step(w);
    if (p != NULL && w->steps % 16 == 0)
        firmware_step(p);
    else if (!run_what_is_due(w))
        pass_time(w, 1000000);
}

/* L1: all is sent; L2: all commands are done. */
static void come_to_rest(struct world *w)
{
    uint64_t last = w->steps + REST_STEPS;

    while (!is_at_rest(w) && w->steps < last && w->broken[0] == '\0') {
        rest_step(w);
        check_step(w);
    }
    if (w->steps < last)
        return;
    for (int i = 0; i < w->book.command_count; i++) {
        const struct command *c = &w->book.commands[i];

        if (!c->is_acked || (!c->is_done && !c->is_dead))
            broken(w, "L2_commands_are_done", "c%d is %s, delivered %u times",
                i, c->is_acked ? "stored" : "not stored", c->deliveries);
    }
    broken(w, "L1_all_is_sent", "%" PRId64 " wait, %" PRId64 " are held",
        w->seen.waiting, w->seen.held);
}

/* L3: nobody has anything to do soon. */
static void check_quiet(struct world *w)
{
    int64_t until_us = w->now_us + 10000000;
    unsigned steps = 0;

    while (w->now_us < until_us && w->broken[0] == '\0') {
        begin_step(w);
        steps += (unsigned)run_what_is_due(w);
        check_step(w);
        pass_time(w, 30000000);
    }
    if (steps > w->p.processes * 300)
        broken(w, "L3_quiet", "%u steps in 10 s with nothing to do", steps);
    happened(w, QUIET);
}

static void heal_and_rest(struct world *w)
{
    heal(w);
    come_to_rest(w);
    /* L4: what is dead is sent, too, once an operator says so */
    operator_requeue_all(w);
    w->must_look_at_all = 1;
    check_step(w);
    come_to_rest(w);
    if (w->broken[0] == '\0' && w->seen.dead > 0)
        broken(w, "L4_requeued_is_sent", "%" PRId64 " are dead", w->seen.dead);
    if (w->broken[0] == '\0')
        check_quiet(w);
    if (w->p.spoil != NULL)
        w->p.spoil(w);
    if (w->broken[0] == '\0')
        check_rest(w);
}

/* ---- the whole ---- */

static void add_up(struct tally *t, const struct world *w)
{
    t->episodes++;
    t->steps += w->steps;
    t->messages += (uint64_t)w->book.message_count;
    t->publishes += w->broker.publishes;
    t->commands += (uint64_t)w->book.command_count;
    for (int i = 0; i < MARKS; i++)
        t->count[i] += w->count[i];
    for (int i = 0; i < w->book.message_count; i++)
        t->stood += book_stands(w, &w->book.messages[i]) ? 1u : 0u;
    t->sent_before_healed += w->sent_before_healed;
    t->waited_before_healed += w->waited_before_healed;
    t->hash = w->hash;
    if (t->broken[0] == '\0')
        (void)snprintf(t->broken, sizeof(t->broken), "%s", w->broken);
}

void episode_install(void)
{
    memdisk_install();
}

void episode_run(uint64_t seed, episode_tune tune, struct tally *tally)
{
    struct world *w = begin(seed, tune);

    while (w->steps < w->p.steps && w->broken[0] == '\0') {
        chaos_step(w);
        check_step(w);
    }
    if (w->broken[0] == '\0')
        heal_and_rest(w);
    add_up(tally, w);
    end(w);
}
