/* SPDX-License-Identifier: MIT */
/*
 * The firmware of the tests: an engine with its relay thread, and, when told
 * to, work of its own.
 *
 *   gateway DB uri=... client_id=... [option=value ...]
 *
 * Options are those of the engine and of the Paho transport, and
 *
 *   work=N      commit N transactions, each with one row in table state and
 *               one message (payload: the row's n; key: one of four)
 *   gap_us=N    wait so long between two of them
 *   no_put=1    without the messages
 *   tolerate=1  say "refused N NAME", the error's, where a transaction fails;
 *               else it ends the firmware
 *   sync=NAME   synchronous of its own connection (FULL)
 *   deadly=T    crash when a message of topic T is handed to the transport
 *   hold_us=N   keep each of these transactions open for so long
 *   commands=F  subscribe to the filter F; a command adds a row to table
 *               effect, and is answered if it names a response topic; the
 *               point "handler" is passed before it returns
 *   pull=F      the same, but its own thread pulls them, in place of work; the
 *               points of a handled command are passed, too
 *   poison=ID   crash in the handler of the command with this id
 *   failing=F   one more consumer, that adds no row: it asks for another try
 *               of whatever has a topic that ends in "bad"
 *   slow=F      one more, that adds its row to table effect after slow_ms=N
 *   slow_part=F  one more, that waits for slow_ms=N before its transaction
 *
 * and those of trouble.h.
 *
 * It says on standard output "ready", "thread TID" (the one that commits),
 * "committed N" after each commit and "worked" after the last; the log goes
 * to standard error.  SIGTERM ends it in order; SIGUSR1 and SIGUSR2 make their
 * handler tell that the network is back, or gone; SIGHUP: offspring.h.
 */
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deadly.h"
#include "offspring.h"
#include "postbag/slow.h"
#include "pull_one.h"
#include "trouble.h"
#include "words.h"

enum { GRACE_MS = 2000, KEYS = 4 };

struct gateway {
    struct postbag_config engine;
    struct postbag_paho_config paho;
    struct {
        uint32_t work, gap_us, hold_us, no_put, tolerate, slow_ms;
        const char *sync, *commands, *pull, *deadly, *poison, *failing, *slow,
            *slow_part;
    } own;
    struct trouble trouble;
    struct postbag *postbag;
    sqlite3 *db;
    struct postbag_writer *writer;
    sqlite3_stmt *insert;
    sigset_t stop;
};

#define OWN(field, is_text) \
    { \
#field, offsetof(struct gateway, own.field), is_text \
    }

static const struct word_option own_words[] = {
    OWN(work, 0),
    OWN(gap_us, 0),
    OWN(hold_us, 0),
    OWN(no_put, 0),
    OWN(tolerate, 0),
    OWN(sync, 1),
    OWN(commands, 1),
    OWN(pull, 1),
    OWN(deadly, 1),
    OWN(poison, 1),
    OWN(failing, 1),
    OWN(slow, 1),
    OWN(slow_ms, 0),
    OWN(slow_part, 1),
    {NULL, 0, 0},
};

static const struct word_option trouble_words[] = {
    WORD_TEXT(struct trouble, die_at),
    WORD_U32(struct trouble, die_after),
    WORD_U32(struct trouble, fail_commits),
    WORD_U32(struct trouble, seed),
    WORD_U32(struct trouble, tell_accepts),
    {NULL, 0, 0},
};

static void die(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("gateway: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One write for a line, so that a kill leaves whole lines only. */
static void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vdprintf(STDOUT_FILENO, format, args);
    va_end(args);
}

static void log_line(void *ctx, const struct postbag_log_line *line)
{
    (void)ctx;
    dprintf(STDERR_FILENO, "%d %s: %s (%d)\n", line->level,
        postbag_error_name(line->code), line->text, line->cause);
}

/* ---- commands ---------------------------------------------------------- */

static void pause_us(uint32_t us)
{
    struct timespec wait = {
        .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

    if (us > 0)
        (void)nanosleep(&wait, NULL);
}

static void add_effect(sqlite3 *db, const struct postbag_command *cmd)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(
            db, "INSERT INTO effect(command) VALUES (?1)", -1, &s, NULL))
        die("effect: %s", sqlite3_errmsg(db));
    sqlite3_bind_text(s, 1, cmd->id, (int)cmd->id_len, SQLITE_TRANSIENT);
    if (sqlite3_step(s) != SQLITE_DONE)
        die("effect: %s", sqlite3_errmsg(db));
    sqlite3_finalize(s);
}

/* A true one: the worker's thread has blocked what raise() would send. */
static void crash(void)
{
    volatile char *volatile nowhere = NULL; /* or -O2 leaves the store out */

    *nowhere = 'x';
}

static enum postbag_outcome handle(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const char *poison = ((struct gateway *)ctx)->own.poison;
    struct postbag_message m = {.struct_size = sizeof(m), .is_text = 1};
    int err = POSTBAG_OK;

    add_effect(postbag_writer_db(w), cmd);
    if (poison != NULL && strlen(poison) == cmd->id_len &&
        memcmp(poison, cmd->id, cmd->id_len) == 0)
        crash();
    m.payload = cmd->id;
    m.payload_len = cmd->id_len;
    if (cmd->response_topic != NULL)
        err = postbag_reply(w, cmd, &m, NULL);
    if (err != POSTBAG_OK)
        die("reply: %s", postbag_writer_fault(w)->text);
    trouble_pass("handler");
    return POSTBAG_DONE;
}

static enum postbag_outcome handle_or_fail(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    size_t len = strlen(cmd->topic);

    (void)ctx;
    if (len < 3 || strcmp(cmd->topic + len - 3, "bad") != 0)
        return POSTBAG_DONE;
    add_effect(postbag_writer_db(w), cmd); /* which is rolled back */
    return POSTBAG_RETRY;
}

static enum postbag_outcome handle_slowly(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const struct gateway *g = ctx;

    say("slow begins\n");
    pause_us(g->own.slow_ms * 1000);
    add_effect(postbag_writer_db(w), cmd);
    say("slow ends\n");
    return POSTBAG_DONE;
}

static enum postbag_outcome wait_outside(
    void *ctx, const struct postbag_command *cmd)
{
    const struct gateway *g = ctx;

    (void)cmd;
    say("slow begins\n");
    pause_us(g->own.slow_ms * 1000);
    say("slow ends\n");
    return POSTBAG_DONE;
}

static void subscribe(struct gateway *g)
{
    const struct {
        const char *name, *filter;
        postbag_handler handler;
    } consumers[] = {
        {"app", g->own.commands, handle},
        {"app", g->own.pull, NULL},
        {"failing", g->own.failing, handle_or_fail},
        {"slow", g->own.slow, handle_slowly},
    };

    for (size_t i = 0; i < sizeof(consumers) / sizeof(consumers[0]); i++)
        if (consumers[i].filter != NULL &&
            postbag_on(g->postbag, consumers[i].name, consumers[i].filter,
                consumers[i].handler, g) != POSTBAG_OK)
            die("%s=%s", consumers[i].name, consumers[i].filter);
    if (g->own.slow_part != NULL &&
        postbag_on_slow(g->postbag, "slow_part", g->own.slow_part, wait_outside,
            handle, g) != POSTBAG_OK)
        die("slow_part=%s", g->own.slow_part);
}

/* ---- start and end ----------------------------------------------------- */

static void open_engine(struct gateway *g)
{
    struct postbag_fault why = {0};
    struct postbag_paho_config in = g->paho;
    char in_id[64];

    (void)snprintf(in_id, sizeof(in_id), "%s-in", g->paho.client_id);
    in.client_id = in_id;
    g->engine.port = trouble_port(&g->trouble);
    g->engine.log = log_line;
    if (postbag_paho_new(&g->engine.transport, &g->paho, &why) != POSTBAG_OK)
        die("transport: %s", why.text);
    if (g->own.deadly != NULL)
        deadly_make(g->engine.transport, g->own.deadly);
    if (g->own.commands != NULL || g->own.pull != NULL) {
        if (postbag_paho_new(&g->engine.inbound, &in, &why) != POSTBAG_OK)
            die("inbound transport: %s", why.text);
        trouble_watch(g->engine.inbound);
    }
    if (postbag_open(&g->postbag, &g->engine, &why) != POSTBAG_OK)
        die("open: %s", why.text);
    subscribe(g);
}

static void run_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die("%s: %s", sql, sqlite3_errmsg(db));
}

static void open_writer(struct gateway *g)
{
    struct postbag_writer_config c = {.struct_size = sizeof(c),
        .port = g->engine.port,
        .engine = g->postbag,
        .reply_topics = g->engine.reply_topics};
    struct postbag_fault why = {0};
    char pragma[64];

    if (sqlite3_open(g->engine.db_path, &g->db) != SQLITE_OK)
        die("%s: %s", g->engine.db_path, sqlite3_errmsg(g->db));
    sqlite3_busy_timeout(g->db, 5000);
    (void)snprintf(pragma, sizeof(pragma), "PRAGMA synchronous=%s",
        g->own.sync == NULL ? "FULL" : g->own.sync);
    run_sql(g->db, pragma);
    run_sql(g->db, "PRAGMA wal_autocheckpoint=0");
    run_sql(g->db,
        "CREATE TABLE IF NOT EXISTS state(n INTEGER PRIMARY KEY, id BLOB);"
        "CREATE TABLE IF NOT EXISTS effect(command TEXT)");
    c.db = g->db;
    if (postbag_writer_open(&g->writer, &c, &why) != POSTBAG_OK)
        die("writer: %s", why.text);
    if (sqlite3_prepare_v2(g->db, "INSERT INTO state(n, id) VALUES (?1, ?2)",
            -1, &g->insert, NULL) != SQLITE_OK)
        die("state: %s", sqlite3_errmsg(g->db));
}

static void shut(struct gateway *g)
{
    int err = postbag_stop(g->postbag, GRACE_MS);

    if (err != POSTBAG_OK && err != POSTBAG_EAGAIN)
        die("stop: %s", postbag_error_text(err));
    sqlite3_finalize(g->insert);
    postbag_writer_close(g->writer);
    postbag_close(g->postbag);
    if (sqlite3_close(g->db) != SQLITE_OK)
        die("close: %s", sqlite3_errmsg(g->db));
}

/* The handler runs whenever, also amid a call of ours. */
static struct postbag *hinted;

static void on_hint(int number)
{
    postbag_link_hint(hinted, number == SIGUSR1);
}

static void catch_hints(struct gateway *g)
{
    const struct sigaction action = {.sa_handler = on_hint};

    hinted = g->postbag;
    if (sigaction(SIGUSR1, &action, NULL) != 0 ||
        sigaction(SIGUSR2, &action, NULL) != 0)
        die("no handler");
}

/* ---- work -------------------------------------------------------------- */

static long last_n(struct gateway *g)
{
    sqlite3_stmt *s = NULL;
    long n;

    if (sqlite3_prepare_v2(g->db, "SELECT ifnull(max(n), 0) FROM state", -1, &s,
            NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW)
        die("state: %s", sqlite3_errmsg(g->db));
    n = (long)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

static int put(struct gateway *g, long n, const struct postbag_id *id)
{
    char payload[24];
    char key[8];
    struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "gw/data",
        .payload = payload,
        .key = key,
        .id = id,
        .is_text = 1};

    m.payload_len = (size_t)snprintf(payload, sizeof(payload), "%ld", n);
    (void)snprintf(key, sizeof(key), "k%ld", n % KEYS);
    return postbag_put(g->writer, &m, NULL);
}

/* 0, or SQLite's error. */
static int add_state(struct gateway *g, long n, const struct postbag_id *id)
{
    sqlite3_bind_int64(g->insert, 1, n);
    sqlite3_bind_blob(g->insert, 2, id->b, sizeof(id->b), SQLITE_STATIC);
    (void)sqlite3_step(g->insert);
    return sqlite3_reset(g->insert);
}

/* The name of what refused the transaction; NULL: it is committed. */
static const char *commit_one(struct gateway *g, long n)
{
    struct postbag_id id;
    int err;

    if (postbag_id_new(g->engine.port, &id) != POSTBAG_OK)
        die("no id");
    err = postbag_begin(g->writer);
    if (err == POSTBAG_OK && add_state(g, n, &id) != SQLITE_OK)
        err = sqlite3_errcode(g->db) == SQLITE_FULL ? POSTBAG_ENOSPC
                                                    : POSTBAG_EIO;
    if (err == POSTBAG_OK && !g->own.no_put)
        err = put(g, n, &id);
    pause_us(g->own.hold_us);
    if (err == POSTBAG_OK)
        err = postbag_commit(g->writer);
    if (err == POSTBAG_OK)
        return NULL;
    postbag_rollback(g->writer);
    return postbag_error_name(err);
}

/* Has SIGTERM come within so long? */
static int is_told_to_stop(struct gateway *g, uint32_t wait_us)
{
    struct timespec wait = {.tv_sec = wait_us / 1000000,
        .tv_nsec = (long)(wait_us % 1000000) * 1000};

    int number = sigtimedwait(&g->stop, NULL, &wait);

    if (number == SIGHUP)
        offspring_make();
    return number == SIGTERM;
}

static void run_pulling(struct gateway *g)
{
    enum { NOTHING_US = 2000 };
    int stopped = 0;

    while (!stopped) {
        int err = pull_one(g->engine.port, g->writer, handle, g);

        stopped = is_told_to_stop(g, err == POSTBAG_OK ? 0 : NOTHING_US);
    }
}

static void run(struct gateway *g)
{
    long n = last_n(g);
    int stopped = 0;

    for (uint32_t i = 0; i < g->own.work && !stopped; i++) {
        const char *why = commit_one(g, ++n);

        if (why == NULL)
            say("committed %ld\n", n);
        else if (g->own.tolerate)
            say("refused %ld %s\n", n, why);
        else
            die("%s: %s, %s", why, postbag_writer_fault(g->writer)->text,
                sqlite3_errmsg(g->db));
        stopped = is_told_to_stop(g, g->own.gap_us);
    }
    if (g->own.work != 0)
        say("worked\n");
    while (!stopped)
        stopped = is_told_to_stop(g, 1000000000);
}

static void read_words(struct gateway *g, int argc, char **argv)
{
    if (argc < 2)
        die("usage: gateway DB uri=... client_id=... [option=value ...]");
    g->engine.struct_size = sizeof(g->engine);
    g->engine.db_path = argv[1];
    g->paho.struct_size = sizeof(g->paho);
    for (int i = 2; i < argc; i++)
        if (!words_set(&g->engine, words_engine, argv[i]) &&
            !words_set(&g->paho, words_paho, argv[i]) &&
            !words_set(&g->trouble, trouble_words, argv[i]) &&
            !words_set(g, own_words, argv[i]))
            die("no such option: %s", argv[i]);
}

int main(int argc, char **argv)
{
    static struct gateway g;

    read_words(&g, argc, argv);
    /* before any thread starts, so that all of them leave it to run */
    sigemptyset(&g.stop);
    sigaddset(&g.stop, SIGTERM);
    sigaddset(&g.stop, SIGHUP);
    sigprocmask(SIG_BLOCK, &g.stop, NULL);
    open_engine(&g);
    open_writer(&g);
    catch_hints(&g);
    if (postbag_start(g.postbag) != POSTBAG_OK)
        die("start");
    say("ready\nthread %d\n", (int)gettid());
    if (g.own.pull != NULL)
        run_pulling(&g);
    else
        run(&g);
    shut(&g);
    return 0;
}
