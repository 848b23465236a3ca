/* SPDX-License-Identifier: MIT */
/*
 * postbag_demo_firmware DB URI RUN_DIR
 *
 * A gateway's firmware on a PC: reads one sensor after the other, and each
 * reading is one transaction.  The engine relays on threads of its own.  Ends
 * on SIGTERM or SIGINT; it may as well be killed.
 *
 * stdout has a line for each commit, with what it took in microseconds;
 * stderr has the log, with syslog's numbers as systemd likes them.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "commands.h"
#include "ledger.h"
#include "names.h"
#include "postbag/linux.h"
#include "postbag/paho.h"
#include "postbag/postbag.h"
#include "state.h"

enum { STOP_GRACE_MS = 10000 };

static void log_line(void *ctx, const struct postbag_log_line *line)
{
    (void)ctx;
    (void)fprintf(stderr, "<%d>%s", line->level, line->text);
    if (line->code != POSTBAG_OK)
        (void)fprintf(stderr, " (%s, cause %d)", postbag_error_name(line->code),
            line->cause);
    (void)fputc('\n', stderr);
}

static int fail(const char *what, const struct postbag_fault *why)
{
    (void)fprintf(stderr, "<3>%s: %s\n", what, why->text);
    return why->code;
}

/* ---- the engine -------------------------------------------------------- */

static int make_transport(
    struct postbag_transport **out, const char *uri, const char *client_id)
{
    const struct postbag_paho_config config = {
        .struct_size = sizeof(config),
        .uri = uri,
        .client_id = client_id,
    };
    struct postbag_fault why;
    int err = postbag_paho_new(out, &config, &why);

    return err == POSTBAG_OK ? err : fail("transport", &why);
}

static int open_engine(struct postbag **out, char **argv)
{
    struct postbag_config config = {
        .struct_size = sizeof(config),
        .db_path = argv[1],
        .port = postbag_linux_port(),
        .log = log_line,
        .run_dir = argv[3],
        .source = SOURCE,
        .reply_topics = REPLY_TOPICS,
        /* a cable costs nothing: try again soon, and forget old trouble soon;
           the defaults suit a modem */
        .reconnect_base_ms = 200,
        .reconnect_cap_ms = 1000,
        .stable_ms = 1000,
    };
    struct postbag_fault why;
    int err = make_transport(&config.transport, argv[2], "host-out");

    if (err != POSTBAG_OK)
        return err;
    err = make_transport(&config.inbound, argv[2], "host-in");
    if (err != POSTBAG_OK) {
        config.transport->ops->destroy(config.transport);
        return err;
    }
    err = postbag_open(out, &config, &why);
    return err == POSTBAG_OK ? err : fail("engine", &why);
}

/* ---- the work ---------------------------------------------------------- */

/* 1 when a signal says that it is over; 0 after the time. */
static int wait_or_end(const sigset_t *ends, int ms)
{
    const struct timespec time = {
        .tv_sec = ms / 1000,
        .tv_nsec = ms % 1000 * 1000000L,
    };

    return sigtimedwait(ends, NULL, &time) > 0;
}

/* 0: this machine does not have the sensor. */
static int sample(struct state *s, const struct sensor *sensor)
{
    int64_t begun = ledger_now_us();
    double value;

    if (!sensor->read(&value))
        return 0;
    /* what cannot be stored is told by then; the next reading is newer */
    if (state_record(s, sensor, value) == POSTBAG_OK)
        (void)printf(
            "%s %lld\n", sensor->name, (long long)(ledger_now_us() - begun));
    return 1;
}

static void work(struct state *s, const sigset_t *ends)
{
    int interval_ms = 1000;
    size_t next = 0;
    size_t count;
    const struct sensor *all = sensors_all(&count);

    (void)state_interval_ms(s, &interval_ms);
    while (!wait_or_end(ends, interval_ms)) {
        for (size_t i = 0; i < count && !sample(s, &all[next++ % count]); i++)
            ;
        /* a command may have changed it */
        (void)state_interval_ms(s, &interval_ms);
    }
}

static int run(struct postbag *engine, const char *path, const sigset_t *ends)
{
    struct state state = {0};
    int err = commands_register(engine);

    if (err == POSTBAG_OK)
        err = state_open(&state, path, engine);
    if (err == POSTBAG_OK)
        err = postbag_start(engine);
    if (err == POSTBAG_OK) {
        work(&state, ends);
        err = postbag_stop(engine, STOP_GRACE_MS);
        if (err == POSTBAG_EAGAIN)
            err = POSTBAG_OK; /* the link is down: sent after the next start */
    }
    state_close(&state);
    return err;
}

int main(int argc, char **argv)
{
    struct postbag *engine = NULL;
    sigset_t ends;
    int err;

    if (argc != 4) {
        (void)fputs("usage: postbag_demo_firmware DB URI RUN_DIR\n", stderr);
        return 2;
    }
    /* before any thread starts, so that all inherit it */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);

    err = open_engine(&engine, argv);
    if (err == POSTBAG_OK)
        err = run(engine, argv[1], &ends);
    postbag_close(engine);
    if (err != POSTBAG_OK)
        (void)fprintf(stderr, "<3>ends: %s\n", postbag_error_text(err));
    return err == POSTBAG_OK ? 0 : 1;
}
