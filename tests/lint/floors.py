# SPDX-License-Identifier: MIT
"""Who may see whom.

Each header of src/ says its floor ("Floor 2.") in its head comment, and so
does a .c without a header of its own; a .c with one is on its header's floor.
src/README.md draws the floors; the lint compares.  A file may include its own
header and headers of lower floors; of its own floor only what stands here.
"""

# The base of a floor: every file of the same floor may include these, and
# they include none of their floor.
BASE = ["mem", "error", "utf8", "row", "drop_sql"]

# file: other headers of its own floor that it may include
SAME_FLOOR = {
    "admin_care": ["admin"],
    "admin_dest": ["admin"],
    "admin_inbox": ["admin"],
    "admin_salvage": ["admin"],
    "chooser": ["lane"],
    "prepare": ["admin"],
    "db_codes": ["db"],
    "dest_store": ["schema", "profile_store"],
    "detach": ["lease"],
    "handling": ["reply", "writer"],
    "handling_slow": ["handling"],
    "handling_trial": ["handling"],
    "held_store": ["late_store", "lost_store"],
    "housekeeper": ["inbox_keep"],
    "inbox_cap": ["inbox_purge", "inbox_store"],
    "inbox_limit": ["limit_store"],
    "inbox_repair": ["inbox_damage", "inbox_store"],
    "inbox_store": ["inbox_damage"],
    "schema": ["schema_held", "coalesce_store", "ttl_store",
               "lost_store"],
    "list_store": ["schema"],
    "status_store": ["inbox_limit", "limit_store", "schema"],
    "discard_store": ["held_store"],
    "db_open": ["db"],
    "archive_store": ["list_store", "schema"],
    "replay_store": ["requeue_store", "schema"],
    "gauge": ["limit_store", "room"],
    "envelope_json": ["envelope"],
    "db_shm": ["db"],
    "db_wal": ["db"],
    "limit_store": ["coalesce_store", "schema"],
    "link_note": ["link"],
    "order_store": ["inbox_store"],
    "deferral": ["inbox_damage", "order_store"],
    "schema_inbox": ["schema"],
    "sender": ["lease"],
    "sender_coalesce": ["sender"],
    "sender_expire": ["sender"],
    "sender_leave": ["sender"],
    "sender_fill": ["sender"],
    "sender_send": ["sender"],
    "sender_settle": ["sender"],
    "sender_suspect": ["sender"],
    "sender_trial": ["sender"],
    "trial_store": ["held_store"],
    "sender_release": ["sender"],
    "sender_revive": ["sender"],
    "sightings": ["moment"],
    "salvage": ["verify"],
    "salvage_ledger": ["salvage", "verify"],
    "verify_schema": ["verify"],
    "verify_values": ["verify"],
    "crew": ["worker"],
    "worker": ["writer", "handling"],
    "reply": ["writer"],
    "claim": ["writer"],
    "pull": ["writer"],
    "receiver": ["reply"],
    "reply_store": ["inbox_store"],
    "engine_open": ["engine"],
    "engine_limits": ["engine"],
    "engine_tell": ["engine"],
    "engine_profile": ["engine"],
    "postbag": ["engine"],
}

# Which files see SQLite's header, and which its codes.
SQLITE_HEADER = ["src/db.c", "src/db_codes.c", "src/db_open.c", "src/db_shm.c",
                 "src/db_wal.c"]
SQLITE_CODES = SQLITE_HEADER

# Which file calls a transport's send, on the engine's thread.
SENDER = "src/sender_send.c"

# Which files may call the allocator.
ALLOCATOR = ["src/mem.c"]
