/* SPDX-License-Identifier: MIT */
/*
 * The one table of options: struct fields, keys of the configuration file and
 * the table in the README come from here.
 *
 * X(kind, name, default, min, max, unit, help)
 *   kind U32: a number, 0 = default;  STR: text, NULL = default
 *   min and max bound what you may set; for STR they bound the length
 */
#ifndef POSTBAG_OPTIONS_H
#define POSTBAG_OPTIONS_H

#define POSTBAG_OPTION_MAP(X) \
    X(STR, dest, "main", 1, 64, "", "destination that this engine sends to") \
    X(STR, dest_from, "", 0, 6, "", \
        "add the destination if there is none of that name, and begin with " \
        "what is put from now on (now) or with the oldest message still " \
        "stored (oldest); none: refuse to start") \
    X(STR, source, "/gateways/postbag", 1, 255, "", \
        "CloudEvents source: who made the ids; set it per device") \
    X(STR, envelope, "cloudevents", 3, 16, "", \
        "cloudevents, minimal (user property id and your headers) or raw " \
        "(your headers only)") \
    X(U32, window, 64, 16, 1000, "messages", \
        "most messages in flight; never above the broker's Receive Maximum") \
    X(U32, window_bytes, 65536, 1024, 16777216, "bytes", \
        "most payload bytes in flight; a larger message goes alone") \
    X(U32, lane_share, 8, 2, 1000, "messages", \
        "while urgent messages wait, bulk has one send of so many, and each " \
        "urgent lane one of so many of its own and higher lanes") \
    X(U32, bulk_rate, 0, 0, 1000000, "messages/s", \
        "send no more bulk (priority 0) than this, with bursts of an eighth " \
        "of it; 0: no bound") \
    X(U32, bulk_bytes_rate, 0, 0, 4000000000, "bytes/s", \
        "the same for its packets; a larger one than the burst may leave " \
        "after a pause, and the next ones wait for it; 0: no bound") \
    X(U32, pace_all, 0, 0, 1, "", "1: both rates are for all lanes together") \
    X(U32, ack_batch, 64, 1, 1000, "messages", \
        "save the cursor when so many PUBACKs wait") \
    X(U32, ack_delay_ms, 1000, 1, 60000, "ms", \
        "or when the oldest of them waited so long; with ack_batch the bound " \
        "on duplicates after a crash") \
    X(U32, connect_timeout_ms, 10000, 100, 300000, "ms", \
        "a connection attempt is given up after this") \
    X(U32, ack_timeout_ms, 30000, 2000, 600000, "ms", \
        "no PUBACK for so long with messages in flight: reconnect") \
    X(U32, reconnect_base_ms, 1000, 10, 300000, "ms", \
        "reconnect backoff, full jitter: first ceiling") \
    X(U32, reconnect_cap_ms, 300000, 10, 86400000, "ms", \
        "reconnect backoff: highest ceiling") \
    X(U32, stable_ms, 30000, 1, 3600000, "ms", \
        "the backoff starts afresh only after a link lived so long, with a " \
        "PUBACK if anything was sent") \
    X(U32, start_jitter_ms, 1, 1, 86400000, "ms", \
        "after a start the first connect of each link waits a random part of " \
        "this, whatever postbag_link_hint says; set it on fleets that get " \
        "their power back together") \
    X(U32, first_server_s, 600, 1, 31536000, "s", \
        "with several servers: connected to another for so long, go back to " \
        "the first") \
    X(U32, retry_base_ms, 1000, 10, 300000, "ms", \
        "backoff of a refused message, full jitter: first ceiling") \
    X(U32, retry_cap_ms, 300000, 10, 86400000, "ms", \
        "backoff of a refused message: highest ceiling") \
    X(U32, max_attempts, 12, 1, 1000000, "attempts", \
        "a refused message is dead after so many; so is a suspect that ended " \
        "the process so often") \
    X(U32, held_max_rows, 10000, 1, 100000000, "messages", \
        "at so many refused messages, with those that wait behind them, new " \
        "ones wait in the log; bulk stops at seven eighths") \
    X(U32, held_max_bytes, 16777216, 1, 4000000000, "bytes", \
        "or at so many bytes of their topics and payloads; the last one may " \
        "pass it") \
    X(U32, held_max_per_key, 1000, 1, 100000000, "messages", \
        "so many of one key may wait behind a refused one; later ones of the " \
        "key wait in the log") \
    X(U32, dead_max_rows, 10000, 1, 100000000, "messages", \
        "most dead messages kept; beyond it the oldest are dropped " \
        "(outbox_lost: dead_overflow)") \
    X(U32, dead_max_bytes, 16777216, 1, 4000000000, "bytes", \
        "or so many bytes of their topics and payloads") \
    X(U32, dead_requeue_s, 0, 0, 31536000, "s", \
        "messages that died of refusals that may pass are sent once more " \
        "after so long, without an operator; 0: never") \
    X(U32, lease_ms, 30000, 1000, 3600000, "ms", \
        "a silent owner of the destination is replaced after this") \
    X(U32, skip_sync_before_send, 0, 0, 1, "", \
        "1: do not sync the WAL before sending what a writer with " \
        "synchronous below FULL committed; a power cut can then leave sent " \
        "messages whose transaction never happened") \
    X(U32, checkpoint_frames, 250, 16, 100000, "frames", \
        "checkpoint when the WAL holds so many") \
    X(U32, keep_s, 0, 0, 31536000, "s", \
        "keep delivered rows so long, with published_at; not moved by clocks " \
        "that jump") \
    X(U32, keep_rows, 0, 0, 4000000000, "rows", \
        "keep the last delivered rows of each lane, those whose seq is so " \
        "close to the last one's; with keep_s what either keeps; a minimum: " \
        "some more stay") \
    X(U32, poll_ms, 5000, 1000, 60000, "ms", \
        "look for rows of other processes at least so often; normally their " \
        "commits are seen at once (inotify)") \
    X(U32, max_payload, 0, 0, 16777216, "bytes", \
        "largest payload, kept in the database and checked for every writer; " \
        "0: what the database has, 65536 in a new one") \
    X(U32, max_rows, 0, 0, 4000000000, "messages", \
        "a put is refused while so many wait for the slowest destination, " \
        "one of priority 0 at seven eighths; kept in the database and " \
        "checked for every writer; 0: what the database has, no limit in a " \
        "new one; 4000000000: no limit") \
    X(U32, max_bytes, 0, 0, 4000000000, "bytes", \
        "or while so many bytes of topics and payloads wait, likewise; the " \
        "last put may pass it; 0: what the database has, no limit in a new " \
        "one; 4000000000: no limit") \
    X(U32, min_free_bytes, 0, 0, 4000000000, "bytes", \
        "or while no more is free on the file system of the database: the " \
        "rest is the relay's; kept in the database, checked by postbag_put, " \
        "and for plain SQL by a relay that runs; 0: what the database has, " \
        "262144 in a new one") \
    X(STR, overflow, "", 0, 16, "", \
        "a put at the limit: reject refuses it, drop_oldest drops the oldest " \
        "unsent messages of priority 0 instead, if there are any; none: what " \
        "the database has, reject in a new one") \
    X(U32, detach_after_s, 0, 0, 315360000, "s", \
        "another destination is detached when the oldest message that it has " \
        "not settled, and this one has, is so old: what waits for it is " \
        "dropped and recorded; 0: never, it keeps the log") \
    X(U32, detach_after_bytes, 0, 0, 4000000000, "bytes", \
        "or when so many bytes wait for it that this one has settled; below " \
        "max_bytes, or puts are refused before") \
    X(U32, niceness, 10, 1, 19, "", "nice value of the engine's thread") \
    X(STR, run_dir, "/run/postbag", 1, 200, "", \
        "where the live state is written (tmpfs); \"none\" for nowhere") \
    X(U32, session_expiry_s, 604800, 1, 2147483647, "s", \
        "how long the broker keeps commands for us while we are away") \
    X(U32, inbox_keep_s, 604800, 60, 315360000, "s", \
        "how long a done command is remembered; longer than the broker can " \
        "redeliver") \
    X(U32, inbox_done_max_rows, 100000, 1000, 100000000, "rows", \
        "about so many done commands are remembered, some 300 bytes each and " \
        "their results; " \
        "beyond it the oldest are forgotten before inbox_keep_s") \
    X(U32, inbox_max_rows, 0, 0, 4000000000, "rows", \
        "while so many commands and claims are not done, new commands are " \
        "not acknowledged and claims refused; kept in the database; 0: what " \
        "the database has, 100000 in a new one; 4000000000: no limit") \
    X(U32, inbox_max_bytes, 0, 0, 4000000000, "bytes", \
        "or, for commands, so many bytes of payloads and headers; the last " \
        "one may pass it; 0: what the database has, 67108864 in a new one; " \
        "4000000000: no limit") \
    X(U32, inbox_dead_max_rows, 10000, 1, 100000000, "rows", \
        "most dead commands kept; beyond it the oldest are given up: of them " \
        "only what tells a duplicate is kept, as of done ones") \
    X(U32, inbox_accept_ms, 100, 1, 1000, "ms", \
        "longest wait for the database while a command is being stored") \
    X(STR, identity, "cloudevents,id,correlation,json:$.id", 1, 255, "", \
        "where a command's id stands, the first place that has one counts: " \
        "cloudevents (id with source), id (user property), correlation " \
        "(data), json:PATH (of SQLite, in the payload), topic:N (N-th part); " \
        "at most 8 places") \
    X(STR, no_identity, "dead", 1, 16, "", \
        "a command without id: dead (kept, not handled), hash (of topic and " \
        "payload is its id) or unprotected (handled as often as it is " \
        "delivered)") \
    X(STR, version_gap, "accept", 1, 16, "", \
        "a command whose version is more than one above the last one of its " \
        "key, for each consumer: accept (its handler is told), defer " \
        "(until the missing one came, then accept) or refuse (kept among the " \
        "dead, as all later ones until the missing one came, or one of them " \
        "is requeued)") \
    X(U32, version_defer_ms, 60000, 1, 86400000, "ms", \
        "longest wait for a missing version, by the time since boot; a " \
        "restart of the machine ends it") \
    X(U32, version_defer_rows, 100, 1, 10000, "commands", \
        "most that wait, for each consumer: with one more, or one that fills " \
        "the inbox (inbox_max_rows, inbox_max_bytes), its key waits no " \
        "longer") \
    X(STR, version_repeat, "accept", 1, 16, "", \
        "the same for a version that is that of the last one") \
    X(STR, version_back, "accept", 1, 16, "", \
        "the same for one below the last one; accept: the next ones are " \
        "compared with it") \
    X(STR, reply_topics, "", 0, 1000, "", \
        "topic filters, separated by commas, that replies may go to") \
    X(U32, reply_dead, 0, 0, 1, "", \
        "1: a command that its handler rejected, whose attempts are used up " \
        "or that expired is answered with an empty reply, user property " \
        "status rejected, failed or expired") \
    X(STR, profile, "", 0, 32, "", \
        "the broker's rules (any, aws, iothub, eventgrid, thingsboard), kept " \
        "in the database and checked for every writer; none: what the " \
        "database has")

#endif
