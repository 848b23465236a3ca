/* SPDX-License-Identifier: MIT */
/*
 * The command relay: an engine on its thread, in the foreground, until a
 * signal.  The main thread only waits.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli.h"
#include "config.h"
#include "options.h"
#include "out.h"
#include "postbag/linux.h"

enum { GRACE_MS = 5000, ONCE_LOOK_MS = 200, LOCKED_LOOK_MS = 200 };

struct relay {
    const struct args *args;
    struct config config;
    struct postbag *postbag;
    struct postbag_admin *admin; /* with --once */
    int64_t dead_before;
    int signals; /* a descriptor */
    atomic_int is_refused;
};

/* ---- log --------------------------------------------------------------- */

static const char *level_name(int level)
{
    if (level <= POSTBAG_LOG_ERROR)
        return "error: ";
    return level == POSTBAG_LOG_WARNING ? "warning: " : "";
}

/* Any thread.  journald takes the level from <N>; people see words. */
static void log_line(void *ctx, const struct postbag_log_line *line)
{
    struct relay *r = ctx;

    if (line->code == POSTBAG_EREFUSED)
        atomic_store(&r->is_refused, 1);
    if (line->level > POSTBAG_LOG_NOTICE)
        return;
    flockfile(stderr);
    if (isatty(STDERR_FILENO))
        (void)fputs(level_name(line->level), stderr);
    else
        (void)fprintf(stderr, "<%d>", line->level);
    out_plain(stderr, line->text, strlen(line->text));
    (void)fputc('\n', stderr);
    funlockfile(stderr);
}

static void say(struct relay *r, int level, const char *text)
{
    const struct postbag_log_line line = {.level = level, .text = text};

    log_line(r, &line);
}

/* ---- wait -------------------------------------------------------------- */

/* Before any thread starts, so that all of them have the signals blocked. */
static int catch_signals(struct relay *r)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGUSR1);
    (void)sigaddset(&set, SIGUSR2);
    (void)sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) == 0)
        r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r->signals < 0)
        return cli_errno(CLI_ERROR, "signals");
    return CLI_OK;
}

static int has_come(const sigset_t *came, int signal)
{
    return sigismember(came, signal) == 1;
}

/* All that wait are taken together, since they do not come in the order in
 * which they were sent.  "Back" beside "gone" counts: if that is wrong it costs
 * an attempt, the other way round a long wait. */
static void take_signals(struct relay *r, sigset_t *came)
{
    struct signalfd_siginfo info;

    (void)sigemptyset(came);
    while (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        (void)sigaddset(came, (int)info.ssi_signo);
}

/* 1: a signal to end came; 0: the time is over, or another came. */
static int wait_for_signal(struct relay *r, int timeout_ms)
{
    struct pollfd p = {.fd = r->signals, .events = POLLIN};
    sigset_t came;

    if (poll(&p, 1, timeout_ms) <= 0)
        return 0;
    take_signals(r, &came);
    if (has_come(&came, SIGTERM) || has_come(&came, SIGINT))
        return 1;
    if (has_come(&came, SIGUSR1) || has_come(&came, SIGUSR2))
        postbag_link_hint(r->postbag, has_come(&came, SIGUSR1));
    if (has_come(&came, SIGHUP))
        postbag_reconnect(r->postbag);
    return 0;
}

static int look(struct relay *r, struct postbag_status *out)
{
    memset(out, 0, sizeof(*out));
    out->struct_size = sizeof(*out);
    if (postbag_admin_status(r->admin, r->config.engine.dest, out) !=
        POSTBAG_OK)
        return cli_fail("status", postbag_admin_fault(r->admin));
    return CLI_OK;
}

static int count_untried(void *ctx, const struct postbag_row *row)
{
    int *count = ctx;

    *count += row->attempts == 0;
    return 0;
}

/* Was each held row tried since it was last requeued?  What the broker
 * refused then waits for its backoff, and is not waited for here. */
static int held_rows_were_tried(struct relay *r, int *out)
{
    const struct postbag_row_filter filter = {
        .struct_size = sizeof(filter),
        .dest = r->config.engine.dest,
        .state = POSTBAG_ROW_RETRY,
    };
    int untried = 0;
    int err = postbag_admin_list(r->admin, &filter, count_untried, &untried);

    *out = untried == 0;
    if (err != POSTBAG_OK)
        return cli_fail("held messages", postbag_admin_fault(r->admin));
    return CLI_OK;
}

/* How many of them, and the command that lists them. */
static void say_which(
    struct relay *r, int64_t count, const char *state, const char *command)
{
    const struct postbag_config *c = &r->config.engine;
    char text[512];

    if (count == 0)
        return;
    (void)snprintf(text, sizeof(text),
        "%lld message%s %s: see postbag %s %s%s%s", (long long)count,
        count == 1 ? " is" : "s are", state, command, c->db_path,
        c->dest == NULL ? "" : " --dest ", c->dest == NULL ? "" : c->dest);
    say(r, POSTBAG_LOG_WARNING, text);
}

static int report_refusal(struct relay *r, const struct postbag_status *s)
{
    say_which(r, s->dead - r->dead_before, "dead", "dead ls");
    say_which(r, s->held, "held", "ls");
    say_which(r, s->pending, "not sent", "ls");
    return CLI_REFUSED;
}

/* --once: till nothing is pending or the broker has refused us. */
static int wait_till_sent(struct relay *r)
{
    struct postbag_status s;

    do {
        int tried = 0;
        int code = look(r, &s);

        if (code == CLI_OK)
            code = held_rows_were_tried(r, &tried);
        if (code != CLI_OK)
            return code;
        if (atomic_load(&r->is_refused))
            return report_refusal(r, &s);
        if (s.pending == 0 && tried)
            return s.held > 0 || s.dead > r->dead_before ? report_refusal(r, &s)
                                                         : CLI_OK;
    } while (!wait_for_signal(r, ONCE_LOOK_MS));
    return CLI_ERROR;
}

static int wait_for_end(struct relay *r)
{
    if (r->args->once)
        return wait_till_sent(r);
    while (!wait_for_signal(r, -1))
        continue;
    return CLI_OK;
}

/* ---- start and stop ---------------------------------------------------- */

/* is_locked_out: another process has the database locked. */
static int try_to_open(struct relay *r, int *is_locked_out)
{
    struct postbag_config *c = &r->config.engine;
    struct postbag_fault why = {0};
    int err = postbag_paho_new(&c->transport, &r->config.mqtt, &why);

    *is_locked_out = 0;
    if (err != POSTBAG_OK)
        return cli_fail(r->args->config, &why);
    c->port = postbag_linux_port();
    c->log = log_line;
    c->log_ctx = r;
    err = postbag_open(&r->postbag, c, &why);
    *is_locked_out = err == POSTBAG_EBUSY;
    return err == POSTBAG_OK || *is_locked_out ? CLI_OK
                                               : cli_fail(c->db_path, &why);
}

/* A migration of the application may run, and takes as long as it takes.  No
 * engine: a signal to end came meanwhile. */
static int open_engine(struct relay *r)
{
    int is_locked = 0;
    int was_told = 0;
    int code;

    do {
        code = try_to_open(r, &is_locked);
        if (is_locked && !was_told)
            say(r, POSTBAG_LOG_WARNING,
                "another process keeps the database locked: waiting for it");
        was_told = was_told || is_locked;
    } while (is_locked && !wait_for_signal(r, LOCKED_LOOK_MS));
    return code;
}

/* After the engine, which may have made the tables. */
static int open_admin(struct relay *r)
{
    const struct postbag_admin_config config = {
        .struct_size = sizeof(config),
        .db_path = r->config.engine.db_path,
        .port = postbag_linux_port(),
    };
    struct postbag_fault why = {0};
    struct postbag_status s;
    int code;

    if (postbag_admin_open(&r->admin, &config, &why) != POSTBAG_OK)
        return cli_fail(config.db_path, &why);
    code = look(r, &s);
    r->dead_before = s.dead;
    return code;
}

static int relay(struct relay *r)
{
    int code = open_engine(r);

    if (code == CLI_OK && r->postbag != NULL && r->args->once)
        code = open_admin(r);
    if (code != CLI_OK || r->postbag == NULL)
        return code;
    if (postbag_start(r->postbag) != POSTBAG_OK)
        return cli_complain(CLI_ERROR, "the relay's thread does not start");
    say(r, POSTBAG_LOG_NOTICE, "relaying");
    code = wait_for_end(r);
    if (postbag_stop(r->postbag, GRACE_MS) != POSTBAG_OK)
        say(r, POSTBAG_LOG_WARNING,
            "stopped with messages in flight; they are sent again");
    say(r, POSTBAG_LOG_NOTICE, "stopped");
    return code;
}

int cli_relay(const struct args *args)
{
    static struct relay r;
    int code;

    if (args->options) {
        options_print();
        return CLI_OK;
    }
    if (args->config == NULL)
        return cli_complain(CLI_USAGE, "--config FILE is missing");
    r.args = args;
    r.signals = -1;
    code = config_read(&r.config, args->config);
    if (code == CLI_OK)
        code = catch_signals(&r);
    if (code == CLI_OK)
        code = relay(&r);
    postbag_admin_close(r.admin);
    postbag_close(r.postbag);
    config_wipe(&r.config);
    if (r.signals >= 0)
        (void)close(r.signals);
    return code;
}
