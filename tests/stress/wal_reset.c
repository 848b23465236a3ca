/* SPDX-License-Identifier: MIT */
/*
 * The WAL-reset bug of SQLite before 3.51.3 must not bite: our relay keeps
 * house beside writers at full speed, and no committed row may be missing and
 * no page damaged afterwards.
 *
 *   wal_reset alone|foreign|hostile [SECONDS]
 *
 * A thread of this process writes: with each message through postbag_begin,
 * its other transactions past the gate, as an application may.  With "foreign"
 * a process of plain SQL and default settings, which checkpoints by itself,
 * writes beside it; a "hostile" one does so without a pause.  The transport
 * acknowledges at once, and durability is switched off: the race is the point
 * here.  Checkpoints are late where it hurts (late_checkpoint.h), without which
 * the race took minutes to show on some machines.  Controls are builds with a
 * housekeeper that lacks the guard (unguard.py), where this program must find
 * damage: exit code 2.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "instant.h"
#include "late_checkpoint.h"
#include "postbag/linux.h"
#include "postbag/postbag.h"

enum { PUT_EVERY = 16, GRACE_MS = 2000, BUSY_MS = 10000, DRAIN_S = 15 };

static char folder[64], path[80];
static atomic_int is_over, has_failed;
static int is_damaged; /* rows are missing or pages bad */

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("FAILED: ", stdout);
    vprintf(format, args);
    fputc('\n', stdout);
    va_end(args);
    atomic_store(&has_failed, 1);
    atomic_store(&is_over, 1);
}

/* ---- writers ----------------------------------------------------------- */

struct writer {
    const char *name; /* and of its table */
    const char *pragmas;
    struct postbag *postbag; /* NULL: plain SQL */
    sqlite3 *db;
    struct postbag_writer *handle;
    int checkpoints; /* after each commit of its own */
    long commits, puts;
};

static int run_sql(struct writer *w, const char *sql)
{
    int rc = sqlite3_exec(w->db, sql, NULL, NULL, NULL);

    if (rc != SQLITE_OK && rc != SQLITE_BUSY)
        fail("%s writer after %ld commits: %s: %s", w->name, w->commits, sql,
            sqlite3_errmsg(w->db));
    return rc == SQLITE_OK;
}

static int open_writer(struct writer *w)
{
    struct postbag_writer_config c = {.struct_size = sizeof(c),
        .port = postbag_linux_port(),
        .engine = w->postbag};
    struct postbag_fault why = {0};
    char sql[80];

    if (sqlite3_open(path, &w->db) != SQLITE_OK)
        return 0;
    sqlite3_busy_timeout(w->db, BUSY_MS);
    (void)snprintf(
        sql, sizeof(sql), "CREATE TABLE %s(n INTEGER PRIMARY KEY, p)", w->name);
    if (!run_sql(w, w->pragmas) || !run_sql(w, sql))
        return 0;
    c.db = w->db;
    if (w->postbag != NULL &&
        postbag_writer_open(&w->handle, &c, &why) != POSTBAG_OK)
        fail("writer: %s", why.text);
    return !atomic_load(&has_failed);
}

static void close_writer(struct writer *w)
{
    postbag_writer_close(w->handle);
    sqlite3_close(w->db);
}

static int add_row(struct writer *w)
{
    char sql[80];

    (void)snprintf(
        sql, sizeof(sql), "INSERT INTO %s(p) VALUES (zeroblob(300))", w->name);
    return run_sql(w, sql);
}

/* A lock that others hold for too long is no fault; the transaction is tried
 * again. */
static int add_message(struct writer *w)
{
    struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "t",
        .payload = "x",
        .payload_len = 1};
    int err = postbag_begin(w->handle);

    if (err == POSTBAG_EBUSY)
        return 0;
    if (err == POSTBAG_OK)
        err = postbag_put(w->handle, &m, NULL);
    if (err == POSTBAG_OK && add_row(w))
        err = postbag_commit(w->handle);
    if (err != POSTBAG_OK)
        fail("%s writer: %s", w->name, postbag_writer_fault(w->handle)->text);
    return err == POSTBAG_OK;
}

static int add_message_by_sql(struct writer *w)
{
    if (!run_sql(w, "BEGIN IMMEDIATE"))
        return 0;
    return run_sql(w, "INSERT INTO outbox(topic, payload) VALUES('t', 'x')") &&
           add_row(w) && run_sql(w, "COMMIT");
}

static void write_one(struct writer *w)
{
    int has_put = w->commits % PUT_EVERY == 0;
    int done;

    if (!has_put)
        done = add_row(w);
    else
        done = w->handle != NULL ? add_message(w) : add_message_by_sql(w);
    w->commits += done;
    w->puts += done && has_put;
    for (int i = 0; i < w->checkpoints && !atomic_load(&is_over); i++) {
        (void)sqlite3_wal_checkpoint_v2(
            w->db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        sched_yield();
    }
}

static void *write_on(void *arg)
{
    struct writer *w = arg;

    if (!open_writer(w))
        fail("%s writer does not open", w->name);
    while (!atomic_load(&is_over))
        write_one(w);
    close_writer(w);
    return NULL;
}

/* ---- the foreign process ----------------------------------------------- */

struct foreign {
    pid_t pid;
    int go[2], answer[2]; /* a byte when there is a database; the counts */
};

static void stop_on_signal(int number)
{
    (void)number;
    atomic_store(&is_over, 1);
}

/* Never returns.  This process has not opened a database before the fork. */
static void be_foreign(struct foreign *f, const char *pragmas, pid_t parent)
{
    struct writer w = {
        .name = "stranger", .pragmas = pragmas, .checkpoints = 500};
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, stop_on_signal);
    if (getppid() != parent || read(f->go[0], &byte, 1) != 1)
        _exit(1);
    (void)write_on(&w);
    fflush(stdout);
    if (write(f->answer[1], &w, sizeof(w)) != (ssize_t)sizeof(w))
        _exit(1);
    _exit(atomic_load(&has_failed));
}

static void start_foreign(struct foreign *f, const char *pragmas)
{
    pid_t parent = getpid();

    if (pipe(f->go) != 0 || pipe(f->answer) != 0)
        abort();
    f->pid = fork();
    if (f->pid < 0)
        abort();
    if (f->pid == 0)
        be_foreign(f, pragmas, parent);
}

static void end_foreign(struct foreign *f, struct writer *w)
{
    struct writer theirs;
    int status = -1;

    kill(f->pid, SIGTERM);
    if (read(f->answer[0], &theirs, sizeof(theirs)) ==
        (ssize_t)sizeof(theirs)) {
        w->commits = theirs.commits;
        w->puts = theirs.puts;
    }
    if (waitpid(f->pid, &status, 0) != f->pid || status != 0)
        fail("the foreign process: status %d", status);
}

/* ---- the check --------------------------------------------------------- */

static long number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    long n = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        n = (long)sqlite3_column_int64(s, 0);
    else
        fail("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(s);
    return n;
}

static void check_integrity(sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    const char *text = "no answer";

    if (sqlite3_prepare_v2(db, "PRAGMA integrity_check(3)", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(s, 0);
    if (strcmp(text, "ok") != 0) {
        is_damaged = 1;
        fail("integrity_check: %s", text);
    }
    sqlite3_finalize(s);
}

static void check_rows(sqlite3 *db, const struct writer *w)
{
    char sql[80];
    long rows;

    (void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", w->name);
    rows = number(db, sql);
    if (rows != w->commits) {
        is_damaged = 1;
        fail("table %s: %ld commits, %ld rows", w->name, w->commits, rows);
    }
}

/* The relay is given time to settle what is put; at the deadline check tells
 * what is missing. */
static void let_drain(void)
{
    struct timespec step = {.tv_nsec = 20 * 1000 * 1000};
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        fail("open: %s", sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, BUSY_MS);
    for (int i = 0; i < DRAIN_S * 50 && !atomic_load(&has_failed); i++) {
        if (number(db, "SELECT (SELECT max(seq) FROM outbox)"
                       " - (SELECT sum(settled_rows) FROM outbox_cursor)") == 0)
            break;
        nanosleep(&step, NULL);
    }
    sqlite3_close(db);
}

/* A message that was sent and settled: the relay has taken its steps, among
 * them the one that guards the WAL.  What others do to each other before that
 * is not its business.  Returns the number of messages. */
static long see_it_at_work(void)
{
    struct writer w = {.name = "outbox"};

    if (sqlite3_open(path, &w.db) != SQLITE_OK)
        fail("open: %s", sqlite3_errmsg(w.db));
    sqlite3_busy_timeout(w.db, BUSY_MS);
    (void)run_sql(&w, "INSERT INTO outbox(topic, payload) VALUES('t', 'x')");
    sqlite3_close(w.db);
    let_drain();
    return 1;
}

static void check(const struct writer w[2], int count, unsigned long sent)
{
    sqlite3 *db = NULL;
    long puts = 0;
    long newest, settled;

    if (sqlite3_open(path, &db) != SQLITE_OK)
        fail("open: %s", sqlite3_errmsg(db));
    check_integrity(db);
    for (int i = 0; i < count; i++) {
        check_rows(db, &w[i]);
        puts += w[i].puts;
    }
    newest = number(db, "SELECT max(seq) FROM outbox");
    settled = number(db, "SELECT sum(settled_rows) FROM outbox_cursor");
    if (newest != puts || settled != puts || sent < (unsigned long)puts)
        fail("outbox: %ld put, newest %ld, settled %ld, sent %lu", puts, newest,
            settled, sent);
    if (number(db, "SELECT max(acked) FROM outbox_cursor") > newest)
        fail("the cursor is beyond the log");
    sqlite3_close(db);
}

/* ---- the run ----------------------------------------------------------- */

static void make_folder(void)
{
    (void)snprintf(folder, sizeof(folder), "/dev/shm/postbag-XXXXXX");
    if (access("/dev/shm", W_OK) != 0)
        (void)snprintf(folder, sizeof(folder), "/tmp/postbag-XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    (void)snprintf(path, sizeof(path), "%s/gw.db", folder);
}

static void remove_folder(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-housekeeper",
        "-relay-main", "-relay-main.standby"};
    char name[120];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        (void)unlink(name);
    }
    if (rmdir(folder) != 0)
        printf("left behind: %s: %s\n", folder, strerror(errno));
}

static void log_line(void *ctx, const struct postbag_log_line *line)
{
    (void)ctx;
    printf("  log: %s\n", line->text);
}

static struct postbag *start_relay(struct instant *t)
{
    struct postbag_config c = {.struct_size = sizeof(c),
        .db_path = path,
        .port = postbag_linux_port(),
        .transport = &t->base,
        .log = log_line,
        .run_dir = "none",
        .niceness = 1};
    struct postbag_fault why = {0};
    struct postbag *p = NULL;

    if (postbag_open(&p, &c, &why) != POSTBAG_OK ||
        postbag_start(p) != POSTBAG_OK) {
        printf("FAILED: relay: %s\n", why.text);
        exit(1);
    }
    return p;
}

static long default_seconds(void)
{
    const char *full = getenv("POSTBAG_FULL");

    return full != NULL && strcmp(full, "1") == 0 ? 20 : 10;
}

/* Until the time is over or a writer has failed. */
static void let_run(long seconds)
{
    struct timespec step = {.tv_nsec = 20 * 1000 * 1000};
    struct timespec now;
    time_t end;

    clock_gettime(CLOCK_MONOTONIC, &now);
    end = now.tv_sec + seconds;
    while (now.tv_sec < end && !atomic_load(&is_over)) {
        nanosleep(&step, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    atomic_store(&is_over, 1);
}

int main(int argc, char **argv)
{
    static const char fast[] =
        "PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=0";
    static struct instant transport;
    struct writer w[2] = {
        {.name = "own", .pragmas = fast}, {.name = "stranger"}};
    const char *company = argc > 1 ? argv[1] : "alone";
    int has_foreign = strcmp(company, "alone") != 0;
    int is_hostile = strcmp(company, "hostile") == 0;
    long seconds = argc > 2 ? strtol(argv[2], NULL, 10) : default_seconds();
    struct foreign foreign;
    struct postbag *relay;
    pthread_t thread;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (late_checkpoint_install() != SQLITE_OK)
        abort();
    instant_init(&transport);
    make_folder();
    if (has_foreign)
        start_foreign(&foreign, is_hostile ? "PRAGMA synchronous=OFF" : "");
    relay = start_relay(&transport);
    w[0].postbag = relay;
    w[0].puts = see_it_at_work();
    if (pthread_create(&thread, NULL, write_on, &w[0]) != 0)
        abort();
    if (has_foreign && write(foreign.go[1], "g", 1) != 1)
        abort();
    let_run(seconds);
    pthread_join(thread, NULL);
    if (has_foreign)
        end_foreign(&foreign, &w[1]);
    let_drain();
    if (postbag_stop(relay, GRACE_MS) != POSTBAG_OK)
        fail("the relay did not drain");
    postbag_close(relay);
    check(w, has_foreign ? 2 : 1, transport.sent);
    printf("SQLite %s, %ld s: %ld own and %ld foreign commits, "
           "%lu messages: %s\n",
        sqlite3_libversion(), seconds, w[0].commits, w[1].commits,
        transport.sent, atomic_load(&has_failed) ? "FAILED" : "sound");
    remove_folder();
    return is_damaged ? 2 : atomic_load(&has_failed);
}
