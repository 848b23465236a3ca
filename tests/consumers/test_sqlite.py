# SPDX-License-Identifier: MIT
"""The consumer in Python with SQLite."""
import contextlib
import os
import sqlite3

import proof
import rig

# The worker that many would write: the callback returns at once, and so the
# PUBACK leaves.
WORKER = ("""    client.on_message = lambda _client, _data, message: \
handle(take, message)
""", """    import queue
    import threading
    waiting = queue.SimpleQueue()

    def work():
        while True:
            handle(take, waiting.get())

    threading.Thread(target=work, daemon=True).start()
    client.on_message = lambda _client, _data, message: waiting.put(message)
""")


class SqliteDatabase:
    """Of the consumers that keep theirs in SQLite."""

    FORBID = ("CREATE TRIGGER no BEFORE INSERT ON reading"
              " WHEN CAST(NEW.payload AS TEXT) = 'poison'"
              " BEGIN SELECT RAISE(ABORT, 'no'); END")
    PERMIT = "DROP TRIGGER no"
    TEXT = "CAST(payload AS TEXT)"

    def place(self):
        return os.path.join(self.folder, "consumer.db")

    def connect(self):
        return contextlib.closing(sqlite3.connect(
            self.place(), timeout=rig.WAIT_S, isolation_level=None))

    def sql(self, text):
        with self.connect() as db:
            return [row[0] for row in db.execute(text)]

    @contextlib.contextmanager
    def locked(self):
        with self.connect() as db:
            db.execute("BEGIN IMMEDIATE")
            yield


class Sqlite(SqliteDatabase, proof.Proof, rig.Case):
    FILES = ("postbag_events.py", "consumer_sqlite.py")
    OWN_MARKER = (
        ("consumer_sqlite.py", """\
        marked = db.execute("INSERT INTO seen(source, id) VALUES (?, ?)"
                            " ON CONFLICT DO NOTHING",
                            (event.source, event.id)).rowcount
        if not marked:
""", """\
        if db.execute("SELECT 1 FROM seen WHERE source = ? AND id = ?",
                      (event.source, event.id)).fetchone():
"""),
        ("consumer_sqlite.py", """\
    postbag_events.run(lambda event: take(db, event), host, int(port),
                       client_id, topic_filter)
""", """\
    tell = postbag_events.tell

    def tell_and_mark(event, found):
        tell(event, found)
        db.execute("INSERT OR IGNORE INTO seen(source, id) VALUES (?, ?)",
                   (event.source, event.id))

    postbag_events.tell = tell_and_mark
    postbag_events.run(lambda event: take(db, event), host, int(port),
                       client_id, topic_filter)
"""))
    EARLY_ACK = (
        ("postbag_events.py", *WORKER),
        ("consumer_sqlite.py", "timeout=30,",
         "timeout=30, check_same_thread=False,"))

    def command(self, folder):
        return [PYTHON, "-B", os.path.join(folder, "consumer_sqlite.py")]

    def test_control_suppressed_exceptions_are_found_out(self):
        """paho-mqtt 1.6: with them the PUBACK leaves all the same."""
        proof.spoil(self.copy, [(
            "postbag_events.py", "    client.on_connect = connected\n",
            "    client.on_connect = connected\n"
            "    client.suppress_exceptions = True\n")])
        with self.assertRaisesRegex(AssertionError, r"\['last'\] != "):
            self.fails_once()


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    PYTHON = proof.python_with("paho.mqtt.client", "python3-paho-mqtt")
    rig.main()
