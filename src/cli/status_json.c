/* SPDX-License-Identifier: MIT */
/* The command status in JSON.  Keys are only ever added. */
#include "hex.h"
#include "report.h"

void report_database_json(struct report *r)
{
    const struct postbag_database *d = &r->database;
    struct json *j = &r->json;

    json_open(j, "database", '{');
    json_text(j, "path", r->args->words[0]);
    j->is_unknown = !r->has_database;
    json_number(j, "schema_version", d->schema_version);
    json_number(j, "max_payload", d->max_payload);
    json_number(j, "max_rows", d->max_rows);
    json_number(j, "max_bytes", d->max_bytes);
    json_number(j, "waiting_rows", d->waiting_rows);
    json_text(j, "waiting_rows_for", d->rows_dest);
    json_number(j, "waiting_bytes", d->waiting_bytes);
    json_text(j, "waiting_bytes_for", d->bytes_dest);
    json_number(j, "rows_fill", d->rows_fill);
    json_number(j, "bytes_fill", d->bytes_fill);
    json_maybe(j, "room_bytes", d->room_bytes, d->room_bytes >= 0);
    json_number(j, "min_free_bytes", d->min_free_bytes);
    json_number(j, "page_bytes", d->page_bytes);
    json_number(j, "db_bytes", d->db_bytes);
    json_number(j, "free_bytes", d->free_bytes);
    json_number(j, "wal_bytes", d->wal_bytes);
    json_close(j, '}');
    json_open(j, "inbox", '{');
    json_number(j, "due", d->inbox_due);
    json_number(j, "deferred", d->inbox_deferred);
    json_number(j, "done", d->inbox_done);
    json_number(j, "dead", d->inbox_dead);
    json_number(j, "expired", d->inbox_expired);
    json_number(j, "claimed", d->inbox_claimed);
    json_number(j, "max_rows", d->inbox_max_rows);
    json_number(j, "bytes", d->inbox_bytes);
    json_number(j, "max_bytes", d->inbox_max_bytes);
    json_number(j, "forgotten", d->inbox_forgotten);
    j->is_unknown = 0;
    json_close(j, '}');
}

static void ledger_json(struct json *j, const struct postbag_status *s)
{
    json_number(j, "put", s->put);
    json_number(j, "pending", s->pending);
    json_number(j, "sending", s->sending);
    json_number(j, "delivered", s->delivered);
    json_number(j, "held", s->held);
    json_number(j, "held_retry", s->held_retry);
    json_number(j, "held_behind", s->held_behind);
    json_number(j, "held_suspect", s->held_suspect);
    json_number(j, "on_trial", s->on_trial);
    json_number(j, "dead", s->dead);
    json_number(j, "dropped", s->dropped);
    json_number(j, "dropped_ttl", s->dropped_ttl);
    json_number(j, "dropped_limit", s->dropped_limit);
    json_number(j, "dropped_coalesced", s->dropped_coalesced);
    json_number(j, "dropped_discarded", s->dropped_discarded);
    json_number(j, "dropped_other", s->dropped_other);
    json_number(j, "passed", s->passed);
    json_number(j, "replayed", s->replayed);
    json_number(j, "ledger_gap", s->ledger_gap);
    json_number(j, "put_bytes", s->put_bytes);
    json_number(j, "pending_bytes", s->pending_bytes);
    json_number(j, "held_bytes", s->held_bytes);
    json_number(j, "dead_bytes", s->dead_bytes);
}

static void relay_json(struct json *j, const struct report *r)
{
    const struct postbag_status *s = &r->status;
    const struct live *l = &r->live;
    int is_known = report_link_is_known(r);
    char owner[33];

    json_text(j, "relay", report_relay_name(r->relay));
    json_text(
        j, "lease", r->has_status ? report_lease_name(s->lease) : "unknown");
    json_text(j, "lease_owner",
        s->lease == POSTBAG_LEASE_NONE
            ? NULL
            : hex_of(owner, sizeof(owner), s->owner, sizeof(s->owner)));
    json_maybe(j, "epoch", s->epoch, r->has_status);
    json_maybe(j, "lease_left_ms", s->lease_left_ms,
        s->lease == POSTBAG_LEASE_VALID || s->lease == POSTBAG_LEASE_EXPIRED);
    json_text(j, "link", report_link_name(r));
    json_text(
        j, "link_error", is_known && l->error[0] != '\0' ? l->error : NULL);
    json_maybe(j, "link_attempts", l->link_attempts, is_known);
    json_maybe(j, "server", l->server, is_known && l->server != 0);
    json_time(j, "own_certificate_end",
        is_known ? l->own_certificate_end_s * 1000 : 0);
    json_time(j, "server_certificate_end",
        is_known ? l->server_certificate_end_s * 1000 : 0);
    json_maybe(j, "in_flight", l->in_flight, is_known);
    json_maybe(j, "held_full", l->held_full, is_known);
    json_maybe(j, "bulk_rate", l->bulk_rate, is_known);
    json_maybe(j, "bulk_bytes_rate", l->bulk_bytes_rate, is_known);
    json_maybe(j, "pace_all", l->pace_all, is_known);
    json_text(
        j, "stalled", is_known && l->stalled[0] != '\0' ? l->stalled : NULL);
    json_time(j, "last_puback", l->last_puback_ms);
    json_text(j, "inbound", is_known ? l->inbound : NULL);
    json_maybe(j, "inbound_accepted", l->accepted, is_known);
    json_maybe(j, "inbound_duplicates", l->duplicates, is_known);
    json_maybe(j, "inbound_nacks", l->nacks, is_known);
}

void report_dest_json(struct report *r)
{
    const struct postbag_status *s = &r->status;
    struct json *j = &r->json;
    int64_t drain = report_drain_rate(r);
    int64_t empty = report_empty_in_ms(r);

    json_open(j, NULL, '{');
    json_text(j, "dest", r->dest);
    json_text(j, "profile", s->profile[0] == '\0' ? NULL : s->profile);
    j->is_unknown = !r->has_status;
    ledger_json(j, s);
    json_time(j, "oldest", s->oldest_ms);
    json_maybe(j, "oldest_age_ms", s->oldest_age_ms, s->oldest_ms != 0);
    json_maybe(j, "put_per_1000s", s->put_rate_milli, s->put_rate_milli >= 0);
    j->is_unknown = 0;
    json_maybe(j, "drain_per_1000s", drain, drain >= 0);
    json_maybe(j, "empty_in_ms", empty, r->has_status && empty >= 0);
    relay_json(j, r);
    json_close(j, '}');
}
