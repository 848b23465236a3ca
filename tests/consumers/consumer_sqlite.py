#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A consumer whose effects happen once: paho-mqtt and SQLite.

    consumer_sqlite.py HOST PORT CLIENT_ID TOPIC_FILTER DATABASE
"""
import sqlite3
import sys

import postbag_events

TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS seen(
  source TEXT NOT NULL, id TEXT NOT NULL,
  at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (source, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_version(
  source TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,
  PRIMARY KEY (source, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reading(key TEXT, payload BLOB NOT NULL);
"""


def effect(db, event):
    """Yours goes here: whatever it writes to db happens once."""
    db.execute("INSERT INTO reading(key, payload) VALUES (?, ?)",
               (event.key, event.payload))


def judge(event, last):
    """What is odd about the version of an event whose key was at last."""
    if last is None or event.version == last + 1:
        return None
    if event.version is None:
        what = "unversioned"
    elif event.version > last:
        what = "gap"
    else:
        what = "repeat" if event.version == last else "back"
    came = "none" if event.version is None else event.version
    return f"{what} {event.source} {event.key}: after {last} came {came}"


def note_version(db, event):
    """The highest version of each key so far; returns what is odd."""
    if event.key is None:
        return None
    row = db.execute("SELECT version FROM key_version"
                     " WHERE source = ? AND key = ?",
                     (event.source, event.key)).fetchone()
    if event.version is not None:
        db.execute("INSERT INTO key_version VALUES (?, ?, ?) ON CONFLICT"
                   " DO UPDATE SET version = max(version, excluded.version)",
                   (event.source, event.key, event.version))
    return judge(event, None if row is None else row[0])


def take(db, event):
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits, or rolls back if something is raised
        # the constraint decides, not a SELECT before
        marked = db.execute("INSERT INTO seen(source, id) VALUES (?, ?)"
                            " ON CONFLICT DO NOTHING",
                            (event.source, event.id)).rowcount
        if not marked:
            return f"duplicate {event.id}"
        effect(db, event)
        return note_version(db, event)


def open_database(path):
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.executescript(TABLES)
    # What a killed process committed may not be on the disk yet, and a
    # duplicate, which writes nothing, would be acknowledged: sync it.
    db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return db


def main(host, port, client_id, topic_filter, path):
    db = open_database(path)
    postbag_events.run(lambda event: take(db, event), host, int(port),
                       client_id, topic_filter)


if __name__ == "__main__":
    main(*sys.argv[1:])
