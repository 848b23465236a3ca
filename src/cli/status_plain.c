/* SPDX-License-Identifier: MIT */
/* The command status for people. */
#include <string.h>

#include "postbag/linux.h"
#include "report.h"

static void name(const char *what)
{
    (void)printf("%-12s ", what);
}

/* As the next put sees it, so that "0 %" and a refused put do not go together:
 * in percent, rounded down, 100 is full; with the destination that counts. */
static void limit_plain(int64_t waits, int64_t limit, int64_t fill,
    const char *unit, const char *dest)
{
    if (limit == 0)
        return;
    name("limit");
    (void)printf(
        "%lld %% of %s waits for ", (long long)(waits * 100 / limit), unit);
    out_plain(stdout, dest, strlen(dest));
    if (waits >= limit)
        (void)fputs("; FULL", stdout);
    else if (fill >= 1000) /* of what bulk may take */
        (void)fputs("; FULL for priority 0", stdout);
    (void)fputc('\n', stdout);
}

static void room_plain(const struct postbag_database *d)
{
    struct words room;
    struct words least;

    if (d->room_bytes < 0)
        return;
    name("room");
    (void)printf("%s, min_free_bytes %s%s\n", words_bytes(&room, d->room_bytes),
        words_bytes(&least, d->min_free_bytes),
        d->room_bytes <= d->min_free_bytes ? "; FULL" : "");
}

static void limits_plain(const struct postbag_database *d)
{
    char unit[64];
    struct words size;

    (void)snprintf(
        unit, sizeof(unit), "max_rows, %lld messages,", (long long)d->max_rows);
    limit_plain(d->waiting_rows, d->max_rows, d->rows_fill, unit, d->rows_dest);
    (void)snprintf(
        unit, sizeof(unit), "max_bytes, %s,", words_bytes(&size, d->max_bytes));
    limit_plain(
        d->waiting_bytes, d->max_bytes, d->bytes_fill, unit, d->bytes_dest);
}

/* Done commands, whose repetition would be handled again. */
static void forgotten_plain(const struct postbag_database *d)
{
    if (d->inbox_forgotten == 0)
        return;
    name("");
    (void)printf("%lld done ones forgotten before inbox_keep_s was over"
                 " (inbox_done_max_rows)\n",
        (long long)d->inbox_forgotten);
}

void report_database_plain(const struct report *r)
{
    const struct postbag_database *d = &r->database;
    struct words size;
    struct words unused;
    struct words wal;

    name("database");
    out_plain(stdout, r->args->words[0], strlen(r->args->words[0]));
    if (!r->has_database) {
        (void)puts("; what is in it is unknown: it is damaged");
        return;
    }
    (void)printf(", schema %lld\n", (long long)d->schema_version);
    name("storage");
    (void)printf("%s, %s of it free; WAL %s\n", words_bytes(&size, d->db_bytes),
        words_bytes(&unused, d->free_bytes), words_bytes(&wal, d->wal_bytes));
    room_plain(d);
    name("inbox");
    (void)printf("%lld due, %lld deferred, %lld done, %lld dead"
                 " (%lld expired), %lld claimed\n",
        (long long)d->inbox_due, (long long)d->inbox_deferred,
        (long long)d->inbox_done, (long long)d->inbox_dead,
        (long long)d->inbox_expired, (long long)d->inbox_claimed);
    forgotten_plain(d);
    limits_plain(d);
}

/* A number that should be zero. */
static void alarming(const struct report *r, const char *what, int64_t n)
{
    int has_color = n != 0 && out_has_color(r->args);

    name(what);
    (void)printf("%s%lld%s", out_color(has_color, "dead"), (long long)n,
        out_color_end(has_color));
}

static void held_plain(const struct report *r)
{
    const struct postbag_status *s = &r->status;
    struct words w;

    name("held");
    (void)printf("%lld (%s): %lld retry, %lld behind, %lld suspect%s\n",
        (long long)s->held, words_bytes(&w, s->held_bytes),
        (long long)s->held_retry, (long long)s->held_behind,
        (long long)s->held_suspect,
        r->live.held_full && report_link_is_known(r)
            ? "; FULL: new messages wait until there are fewer"
            : "");
    if (s->on_trial != 0) {
        name("on trial");
        (void)printf("%lld in flight when the relay crashed, no answer yet\n",
            (long long)s->on_trial);
    }
    alarming(r, "dead", s->dead);
    (void)printf(" (%s)\n", words_bytes(&w, s->dead_bytes));
}

static void ledger_plain(const struct report *r)
{
    const struct postbag_status *s = &r->status;
    struct words w;
    struct words at;

    name("pending");
    (void)printf("%lld (%s), %lld of them being sent\n", (long long)s->pending,
        words_bytes(&w, s->pending_bytes), (long long)s->sending);
    if (s->oldest_ms != 0) {
        name("oldest");
        (void)printf("%s (%s)\n", words_span(&w, s->oldest_age_ms),
            words_time(&at, s->oldest_ms));
    }
    held_plain(r);
    name("so far");
    (void)printf("%lld put, %lld delivered, %lld dropped, %lld passed",
        (long long)s->put, (long long)s->delivered, (long long)s->dropped,
        (long long)s->passed);
    if (s->replayed != 0)
        (void)printf(", %lld replayed", (long long)s->replayed);
    (void)fputc('\n', stdout);
    if (s->dropped != 0) {
        name("dropped");
        (void)printf("%lld ttl, %lld limit, %lld coalesced, %lld discarded,"
                     " %lld other\n",
            (long long)s->dropped_ttl, (long long)s->dropped_limit,
            (long long)s->dropped_coalesced, (long long)s->dropped_discarded,
            (long long)s->dropped_other);
    }
    if (s->ledger_gap != 0) {
        alarming(r, "LEDGER", s->ledger_gap);
        (void)puts(" rows are not accounted for: please report this");
    }
}

static void rates_plain(const struct report *r)
{
    int64_t empty = report_empty_in_ms(r);
    struct words put;
    struct words drain;
    struct words w;

    name("rates");
    (void)printf("put %s, drain %s; ",
        words_rate(&put, r->status.put_rate_milli),
        words_rate(&drain, report_drain_rate(r)));
    if (r->status.pending == 0)
        (void)puts("nothing waits");
    else if (empty >= 0)
        (void)printf("empty in %s\n", words_span(&w, empty));
    else if (report_drain_rate(r) > 0 && r->status.put_rate_milli >= 0)
        (void)puts("never empty at this rate");
    else
        (void)puts("time to empty unknown");
}

static void pace_plain(const struct report *r)
{
    const struct live *l = &r->live;
    const char *between = "";
    struct words w;

    if (!report_link_is_known(r) ||
        (l->bulk_rate == 0 && l->bulk_bytes_rate == 0))
        return;
    name("pace");
    (void)fputs(l->pace_all ? "all lanes " : "priority 0 ", stdout);
    if (l->bulk_rate != 0) {
        (void)printf("%lld/s", (long long)l->bulk_rate);
        between = ", ";
    }
    if (l->bulk_bytes_rate != 0)
        (void)printf("%s%s/s", between, words_bytes(&w, l->bulk_bytes_rate));
    (void)fputs(" at most\n", stdout);
}

static void certificate_plain(const char *whose, int64_t end_s)
{
    const struct postbag_port *port = postbag_linux_port();
    int64_t left_ms = end_s * 1000 - port->wall_ms(port->ctx);
    struct words at;
    struct words w;

    if (end_s == 0)
        return;
    name("certificate");
    (void)printf("%s, ends %s", whose, words_time(&at, end_s * 1000));
    if (left_ms > 0)
        (void)printf(" (in %s)\n", words_span(&w, left_ms));
    else
        (void)puts(" (EXPIRED)");
}

static void link_plain(const struct report *r)
{
    const struct postbag_port *port = postbag_linux_port();
    const struct live *l = &r->live;
    struct words w;

    name("link");
    (void)fputs(report_link_name(r), stdout);
    if (report_link_is_known(r) && l->server > 1)
        (void)printf(", server %lld of the list", (long long)l->server);
    if (r->relay == RELAY_STOPPED)
        (void)fputs(" (no relay runs)", stdout);
    else if (!l->is_known)
        (void)printf(" (no relay state in %s)", report_run_dir(r));
    else if (l->error[0] != '\0') {
        if (l->link_attempts == 1)
            (void)fputs(", failed once: ", stdout);
        else
            (void)printf(", failed %lld times: ", (long long)l->link_attempts);
        out_plain(stdout, l->error, strlen(l->error));
    }
    if (report_link_is_known(r) && l->next_try_ms != 0) {
        int64_t left = l->next_try_ms - port->mono_us(port->ctx) / 1000;

        (void)printf("; next try in %s", words_span(&w, left < 0 ? 0 : left));
    }
    (void)fputc('\n', stdout);
    if (!l->is_known)
        return;
    name("last PUBACK");
    (void)printf("%s; %lld in flight\n", words_time(&w, l->last_puback_ms),
        (long long)(report_link_is_known(r) ? l->in_flight : 0));
    if (report_link_is_known(r) && strcmp(l->inbound, "off") != 0) {
        name("inbound");
        (void)printf("%s; %lld accepted, %lld duplicates, %lld refused\n",
            strcmp(l->inbound, "subscribing") == 0
                ? "connected, not subscribed yet"
                : l->inbound,
            (long long)l->accepted, (long long)l->duplicates,
            (long long)l->nacks);
    }
    if (report_link_is_known(r)) {
        certificate_plain("ours", l->own_certificate_end_s);
        certificate_plain("the broker's", l->server_certificate_end_s);
    }
}

/* The link may be up meanwhile. */
static void stalled_plain(const struct report *r)
{
    static const struct {
        const char *name, *text;
    } all[] = {
        {"locked",
            "nothing is sent: another process keeps the database locked"},
        {"full", "nothing is sent: there is no room to save the cursor"},
        {"failing", "nothing is sent: the database cannot be written: see the"
                    " relay's log"},
        {"replaced", "nothing is sent: its database file was moved, deleted or"
                     " replaced: restart the relay"},
        {"corrupt", "the database is damaged, only what can be read is sent:"
                    " run postbag doctor"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (report_link_is_known(r) &&
            strcmp(r->live.stalled, all[i].name) == 0) {
            name("STALLED");
            (void)printf("%s\n", all[i].text);
        }
}

static void lease_plain(const struct report *r)
{
    const struct postbag_status *s = &r->status;
    struct words w;

    name("relay");
    if (!r->has_status) {
        (void)printf("%s; lease unknown\n", report_relay_name(r->relay));
        return;
    }
    (void)printf("%s; lease %s", report_relay_name(r->relay),
        report_lease_name(s->lease));
    if (s->lease == POSTBAG_LEASE_VALID)
        (void)printf(" for %s", words_span(&w, s->lease_left_ms));
    if (s->lease == POSTBAG_LEASE_EXPIRED)
        (void)printf(" since %s (it is renewed only while another stands by)",
            words_span(&w, -s->lease_left_ms));
    (void)printf(", epoch %lld\n", (long long)s->epoch);
}

void report_dest_plain(const struct report *r)
{
    (void)fputc('\n', stdout);
    name("destination");
    out_plain(stdout, r->dest, strlen(r->dest));
    (void)fputc('\n', stdout);
    if (r->status.profile[0] != '\0') {
        name("profile");
        out_plain(stdout, r->status.profile, strlen(r->status.profile));
        (void)fputc('\n', stdout);
    }
    if (r->has_status) {
        ledger_plain(r);
        rates_plain(r);
    } else {
        name("pending");
        (void)puts("unknown, and so is what is held or dead: it is damaged");
    }
    pace_plain(r);
    lease_plain(r);
    stalled_plain(r);
    link_plain(r);
}
