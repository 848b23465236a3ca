# SPDX-License-Identifier: MIT
"""Destinations: added, listed, removed; and the relays that own them."""
import sqlite3
import unittest

from harness import (Broker, CliTest, ERROR, NOT_FOUND, OK, Relay, USAGE,
                     wait_for)

CONFIG = """[postbag]
db = {db}
run_dir = {run_dir}
dest = {dest}
{more}
[mqtt]
uri = tcp://127.0.0.1:{port}
client_id = {dest}
"""


class Destinations(CliTest):
    def setUp(self):
        super().setUp()
        self.init()

    def list(self):
        """[name, pending] of each."""
        return [[d["dest"], d["pending"]]
                for d in self.json("dest", "ls", self.db)]

    def config(self, dest, port, more=""):
        text = CONFIG.format(db=self.db, run_dir=self.run_dir, dest=dest,
                             port=port, more=more)
        return self.write(dest + ".ini", text, 0o600)

    def broker(self):
        broker = Broker(self.folder, "allow_anonymous true")
        self.addCleanup(broker.stop)
        return broker.port

    def test_dest_is_added_from_now_or_from_the_oldest(self):
        self.put("t", "x")
        self.ok("dest", "add", self.db, "cloud")
        self.ok("dest", "add", self.db, "late", "--from", "oldest")
        self.put("t", "y")
        self.assertEqual(self.list(), [["cloud", 1], ["late", 2], ["main", 2]])
        self.ok("dest", "add", self.db, "cloud", "--from", "oldest")
        self.assertEqual(self.list()[0], ["cloud", 1])

    def test_dest_with_a_bad_name_or_start_is_refused(self):
        self.refused(USAGE, "name", "dest", "add", self.db, "a/b")
        self.refused(USAGE, "now or oldest", "dest", "add", self.db, "cloud",
                     "--from", "yesterday")
        self.assertEqual(self.list(), [["main", 0]])

    def test_dest_table_names_what_waits(self):
        self.put("t", "x")
        lines = self.ok("dest", "ls", self.db).splitlines()
        self.assertIn("PENDING", lines[0])
        self.assertRegex(lines[1], r"^main +1 +2 ")

    def test_dest_row_for_an_unknown_one_is_refused(self):
        self.refused(NOT_FOUND, "unknown destination", "put", self.db, "t",
                     "-m", "x", "--dest", "cloud")
        with self.assertRaisesRegex(sqlite3.IntegrityError,
                                    "^postbag: unknown destination$"):
            self.sql("INSERT INTO outbox(topic, payload, dest)"
                     " VALUES ('t', 'x', 'cloud')")
        self.ok("dest", "add", self.db, "cloud")
        self.put("t", "x", "--dest", "cloud")

    def test_dest_is_removed_with_what_waits_for_it(self):
        self.ok("dest", "add", self.db, "cloud")
        self.put("t", "x")
        self.put("t", "x", "--dest", "cloud")
        self.refused(USAGE, "--yes", "dest", "remove", self.db, "cloud")
        self.assertEqual(
            self.ok("dest", "remove", self.db, "cloud", "--yes"),
            "removed, with 2 pending, 0 held and 0 dead\n")
        self.assertEqual(self.list(), [["main", 2]])
        self.refused(NOT_FOUND, "destination", "dest", "remove", self.db,
                     "cloud", "--yes")
        self.refused(ERROR, "last destination", "dest", "remove", self.db,
                     "main", "--yes")

    def test_dest_of_a_running_relay_is_not_removed(self):
        port = self.broker()
        relay = Relay(self.config("cloud", port, "dest_from = oldest"),
                      self.path("log"))
        self.addCleanup(relay.kill)
        wait_for(lambda: ["cloud", 0] in self.list(), "cloud is added")
        wait_for(lambda: "owns destination cloud" in relay.log_text(),
                 "it is owned")
        self.refused(ERROR, "a relay owns destination cloud", "dest", "remove",
                     self.db, "cloud", "--yes")
        self.assertEqual(relay.stop(), OK)
        self.ok("dest", "remove", self.db, "cloud", "--yes")

    def test_dest_that_a_relay_does_not_know_is_refused(self):
        self.refused(NOT_FOUND, "no destination cloud: add it", "relay",
                     "--once", "--config", self.config("cloud", 1))

    def test_dest_main_is_not_needed(self):
        port = self.broker()
        self.put("t", "x")
        self.ok("dest", "add", self.db, "cloud", "--from", "oldest")
        self.ok("dest", "remove", self.db, "main", "--yes")
        self.assertEqual(self.run_cli("relay", "--once", "--config",
                                      self.config("cloud", port)).returncode,
                         OK)
        self.assertEqual(self.list(), [["cloud", 0]])


if __name__ == "__main__":
    unittest.main()
