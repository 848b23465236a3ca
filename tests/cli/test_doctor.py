# SPDX-License-Identifier: MIT
"""postbag doctor: what it says, what it makes, how it ends."""
import fcntl
import json
import os
import sqlite3
import struct
import unittest

from harness import ERROR, NOT_FOUND, OK, UNSOUND, CliTest


class Doctor(CliTest):
    def setUp(self):
        super().setUp()
        self.new = self.path("new.db")
        self.ok("init", self.db)
        own = sqlite3.connect(self.db)
        own.executemany(
            "INSERT INTO outbox(topic, payload) VALUES (?, ?)",
            [(f"t/{n}", "x" * 100) for n in range(300)])
        own.commit()
        own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.page = own.execute(
            "SELECT pageno FROM dbstat WHERE name = 'outbox'"
            " AND pagetype = 'leaf' ORDER BY path LIMIT 1 OFFSET 2"
        ).fetchone()[0]
        own.close()

    def overwrite_page(self, page, content):
        with open(self.db, "r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(content)

    def overwrite(self, query, content):
        own = sqlite3.connect(self.db)
        page = own.execute(query).fetchone()[0]
        own.close()
        self.overwrite_page(page, content)

    def spoil(self):
        self.overwrite_page(self.page, bytes(4096))

    def test_doctor_of_a_sound_one_names_the_library(self):
        text = self.ok("doctor", self.db)
        self.assertIn("SQLite " + sqlite3.sqlite_version, text)
        self.assertIn("\nsound\n", text)
        report = self.json("doctor", self.db)
        self.assertEqual(report["sqlite"], sqlite3.sqlite_version)
        self.assertEqual(report["page_bytes"], 4096)
        self.assertTrue(report["verify"]["sound"])
        self.assertEqual(self.run_cli("doctor", self.db).err, "")

    def test_doctor_of_a_damaged_one_ends_as_verify(self):
        self.spoil()
        result = self.run_cli("doctor", self.db)
        self.assertEqual(result.returncode, UNSOUND)
        self.assertIn("file: ", result.out)
        self.assertEqual(result.err.count("postbag doctor --salvage"), 1)

    def test_doctor_salvages_all_of_a_sound_one(self):
        result = self.run_cli("doctor", self.db, "--salvage", self.new)
        self.assertEqual(result.returncode, OK, result.out)
        self.assertIn("300 messages to be sent", result.out)
        self.assertIn("nothing is lost", result.out)
        self.assertEqual(result.err, "")
        self.assertIn("300 pending", self.ok("verify", self.new))

    def test_doctor_says_that_a_relay_runs_beside_a_salvage(self):
        with open(self.db + "-relay-other", "wb") as lock:
            fcntl.fcntl(lock, 37,  # F_OFD_SETLK
                        struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            result = self.run_cli("doctor", self.db, "--salvage", self.new)
        self.assertEqual(result.returncode, OK)
        self.assertIn("a relay runs", result.err)

    def test_doctor_says_what_a_salvage_lost(self):
        self.spoil()
        result = self.run_cli("doctor", self.db, "--salvage", self.new)
        self.assertEqual(result.returncode, UNSOUND)
        self.assertIn("lost of outbox: rows ", result.out)
        self.assertIn("not all could be read", result.out)
        self.assertIn("dropped, damaged: ", self.ok("verify", self.new))

    def test_doctor_does_not_guess_how_long_a_log_was(self):
        self.overwrite("SELECT pageno FROM dbstat WHERE name = 'outbox'"
                       " AND pagetype = 'leaf' ORDER BY path DESC", bytes(4096))
        args = ("doctor", self.db, "--salvage", self.new)
        self.assertRegex(self.run_cli(*args).out,
                         "lost of outbox: from [0-9]+ on, how many is unknown")
        os.unlink(self.new)
        found = json.loads(self.run_cli(*args, "-o", "json").stdout)["found"]
        self.assertIsNone(found[0]["to"])

    def test_doctor_refuses_a_file_that_is_there(self):
        self.write("new.db", "mine")
        result = self.run_cli("doctor", self.db, "--salvage", self.new)
        self.assertEqual(result.returncode, ERROR)
        with open(self.new, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")

    def test_doctor_leaves_nothing_of_a_salvage_that_failed(self):
        with open(self.db, "wb") as file:
            file.write(b"no database" * 1000)
        result = self.run_cli("doctor", self.db, "--salvage", self.new)
        self.assertEqual(result.returncode, UNSOUND)
        self.assertFalse(os.path.exists(self.new))
        result = self.run_cli("doctor", self.db, "--salvage", self.new,
                              "-o", "json")
        self.assertEqual(result.returncode, UNSOUND)
        report = json.loads(result.out)
        self.assertEqual(report["found"], [])
        self.assertTrue(report["error"])
        self.assertFalse(os.path.exists(self.new))

    def test_doctor_salvages_without_the_table_of_options(self):
        self.overwrite("SELECT rootpage FROM sqlite_schema"
                       " WHERE name = 'outbox_meta'", b"\x5a" * 4096)
        result = self.run_cli("doctor", self.db, "--salvage", self.new)
        self.assertIn("300 messages to be sent", result.out)
        self.assertIn("sound", self.ok("verify", self.new))

    def test_doctor_salvages_nothing_where_no_outbox_is(self):
        self.write("empty.db", "")
        result = self.run_cli(
            "doctor", self.path("empty.db"), "--salvage", self.new)
        self.assertEqual(result.returncode, ERROR, result.out)
        self.assertFalse(os.path.exists(self.new))

    def test_doctor_without_a_file(self):
        result = self.run_cli("doctor", self.path("nowhere.db"))
        self.assertEqual(result.returncode, NOT_FOUND)


if __name__ == "__main__":
    unittest.main()
