# SPDX-License-Identifier: MIT
"""Commands on a database without a relay."""
import base64
import json
import contextlib
import os
import pty
import re
import shutil
import sqlite3
import subprocess
import unittest
import uuid

from harness import (CliTest, ERROR, LOCKED, NOT_FOUND, OK, POSTBAG, UNSOUND,
                     USAGE)

COMMANDS = ["init", "put", "status", "relay", "ls", "show", "dead ls",
            "dead requeue", "dead discard", "dest ls", "dest add",
            "dest remove", "inbox ls", "inbox requeue",
            "inbox discard", "purge", "archive", "replay", "vacuum",
            "verify", "doctor", "version"]

KILL = """INSERT INTO outbox_held(dest, seq, state, attempts, error, dead_ms,
    id, topic, payload, key, priority, retain, created_ms)
    SELECT 'main', seq, 'dead', 12, 'not authorized (0x87)', 1700000000000,
    id, topic, payload, key, priority, retain, created_ms
    FROM outbox WHERE seq <= {0}"""
SETTLE = """UPDATE outbox_cursor SET acked = {0}, sent_hi = {0},
    settled_rows = {0} WHERE dest = 'main' AND lane = 0"""


class Usage(CliTest):
    def test_usage_no_command_lists_them(self):
        result = self.run_cli()
        self.assertEqual(result.returncode, USAGE)
        for command in COMMANDS:
            self.assertIn("\n  " + command, result.err)

    def test_usage_help_fits_a_screen_and_succeeds(self):
        for command in [[]] + [name.split() for name in COMMANDS]:
            text = self.ok(*command, "--help")
            self.assertLessEqual(text.count("\n"), 24, command)
            self.assertIn("Usage: postbag", text)

    def test_usage_help_is_had_in_any_order(self):
        for group in ("dead", "dest", "inbox"):
            text = self.ok(group, "--help")
            self.assertEqual(
                re.findall(r"(?m)^  ([a-z]+ [a-z]+)", text),
                [name for name in COMMANDS if name.startswith(group + " ")])
            for args in (["--help", group], [group, "-h"], ["-h", group],
                         ["help", group]):
                self.assertEqual(self.ok(*args), text, args)
            self.refused(USAGE, f"something is missing: postbag {group} ",
                         group)
            self.refused(USAGE, f'no command "{group} x"', group, "x",
                         "--help")
        text = self.ok("dead", "ls", "--help")
        for args in (["--help", "dead", "ls"], ["dead", "--help", "ls"],
                     ["help", "dead", "ls"], ["dead", "ls", "x.db", "-h"]):
            self.assertEqual(self.ok(*args), text, args)
        self.assertEqual(self.ok("help", "put"), self.ok("put", "--help"))
        self.refused(USAGE, '"frobnicate"', "--help", "frobnicate")

    def test_usage_help_names_every_state(self):
        text = self.ok("ls", "--help")
        for state in ("pending", "sending", "published", "retry", "behind",
                      "suspect", "dead", "passed", "dropped"):
            self.assertRegex(text, rf"[ \n]{state}[,.]")

    def test_usage_mistakes_are_named(self):
        self.refused(USAGE, '"frobnicate"', "frobnicate")
        self.refused(USAGE, '"dead sing"', "dead", "sing")
        self.refused(USAGE, "--colour", "status", "x.db", "--colour")
        self.refused(USAGE, "'m'", "ls", "x.db", "-m", "no option of ls")
        self.refused(USAGE, "something is missing", "put", "x.db")
        self.refused(USAGE, '"more"', "status", "x.db", "more")
        self.refused(USAGE, "yaml", "status", "x.db", "-o", "yaml")
        self.refused(USAGE, "--limit", "ls", "x.db", "--limit", "many")
        self.refused(USAGE, "--limit", "ls", "x.db", "--limit", "0")
        self.refused(USAGE, "0 to 3", "put", "x.db", "t", "--priority", "4")

    def test_version_is_printed(self):
        self.assertRegex(self.ok("version"), r"^postbag \d+\.\d+\.\d+, schema")

    def test_usage_help_of_an_option_is_that_of_the_command(self):
        for command, line in (("put", "--dest NAME .*only for this"),
                              ("ls", "--dest NAME .*else main"),
                              ("dest add", "--from WHERE .*now .*or oldest "),
                              ("replay", "--from SEQ-or-TIME .*since"),
                              ("replay", "--limit N .*else 1000"),
                              ("ls", "--limit N .*else 50"),
                              ("archive", "--to FILE .*append"),
                              ("inbox discard", "--id ID .*the command of"),
                              ("dead discard", "--id ID .*the message of")):
            self.assertRegex(self.ok(*command.split(), "--help"), line)

    def to_full_device(self, *args):
        """Standard error of a call whose output cannot be written."""
        with open("/dev/full", "wb") as full:
            result = subprocess.run([POSTBAG, *args], stdout=full,
                                    stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, ERROR)
        return result.stderr.decode()

    def test_full_output_is_an_error_told_once(self):
        self.init()
        for i in range(60):
            self.sql(f"INSERT INTO outbox(topic, payload) VALUES ('{i}', 'x')")
        self.sql(SETTLE.format(60))
        full = "output: No space left on device\n"
        self.assertEqual(self.to_full_device("version"),
                         "postbag version: " + full)
        self.assertEqual(
            self.to_full_device("archive", self.db, "--to", "-"),
            "postbag archive: " + full)
        self.assertRegex(self.to_full_device("ls", self.db),
                         r"^postbag ls: output: [^\n]+\n$")
        self.assertNotIn("temporarily",
                         self.to_full_device("ls", self.db))


class Open(CliTest):
    def test_open_missing_file_is_not_found_and_stays_missing(self):
        for command in (["put", self.db, "t", "-m", "x"], ["status", self.db],
                        ["ls", self.db], ["purge", self.db, "--yes"]):
            self.refused(NOT_FOUND, self.db, *command)
        self.assertFalse(os.path.exists(self.db))

    def test_open_other_file_is_an_error(self):
        self.refused(ERROR, "not a database", "status",
                     self.write("text", "no database at all\n" * 100))
        self.sql("CREATE TABLE mine(x)")
        self.refused(ERROR, "postbag init makes it", "status", self.db)
        self.refused(ERROR, "postbag init makes it", "put", self.db, "t",
                     "-m", "x")
        self.refused(ERROR, "is not a file", "status", self.path("."))

    def test_open_locked_database_ends_with_its_own_code(self):
        self.init()
        db = sqlite3.connect(self.db, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        self.refused(LOCKED, "locked", "put", self.db, "t", "-m", "x",
                     "--wait", "50")
        self.refused(LOCKED, "locked", "purge", self.db, "--yes", "--wait",
                     "50")
        self.ok("status", self.db)
        db.execute("ROLLBACK")
        db.close()
        self.put("t", "x")


class InitAndPut(CliTest):
    def test_init_keeps_the_application_and_can_be_repeated(self):
        self.sql("CREATE TABLE mine(x)", "INSERT INTO mine VALUES (7)")
        self.init()
        self.put("t", "x")
        self.init()
        self.assertEqual(self.sql("SELECT x FROM mine"), [(7,)])
        self.assertEqual(self.status()["put"], 1)

    def test_init_limit_is_checked_for_every_writer(self):
        self.init("--max-payload", "10")
        self.put("t", "0123456789")
        self.refused(ERROR, "max_payload", "put", self.db, "t", "-m",
                     "0123456789a")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "max_payload"):
            self.sql("INSERT INTO outbox(topic, payload)"
                     " VALUES ('t', '0123456789a')")

    def test_init_for_a_destination_needs_a_profile(self):
        self.refused(USAGE, "postbag dest add", "init", self.db, "--dest", "a")
        self.assertFalse(os.path.exists(self.db))

    def test_init_profile_is_checked_for_every_writer(self):
        self.refused(USAGE, "no profile azure; there are any, aws, iothub",
                     "init", self.db, "--profile", "azure")
        self.assertFalse(os.path.exists(self.db))
        self.init("--profile", "aws")
        self.init()
        self.put("1/2/3/4/5/6/7/8", "x")
        self.refused(ERROR, "profile aws: topic has more than 7 slashes",
                     "put", self.db, "1/2/3/4/5/6/7/8/9", "-m", "x")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "profile aws"):
            self.sql("INSERT INTO outbox(topic, payload)"
                     " VALUES ('1/2/3/4/5/6/7/8/9', '')")
        self.refused(NOT_FOUND, "no destination", "init", self.db,
                     "--profile", "aws", "--dest", "moon")
        self.init("--profile", "any")
        self.put("1/2/3/4/5/6/7/8/9", "x")

    def test_init_lays_out_in_advance(self):
        self.init("--prepare", "6000000")
        self.assertGreaterEqual(os.path.getsize(self.db), 6000000 - 4096)
        self.assertGreaterEqual(os.path.getsize(self.db + "-wal"), 4194304)
        self.put("t", "x")

    def test_init_lays_nothing_out_that_has_no_room(self):
        self.refused(USAGE, "at least 4194304", "init", self.db, "--prepare",
                     "4194303")
        self.assertFalse(os.path.exists(self.db))
        for size in ("99999999999999", str(2**63 - 1)):
            self.refused(ERROR, "MiB are needed", "init", self.db,
                         "--prepare", size)
        self.assertLess(os.path.getsize(self.db), 1000000)

    def test_init_does_not_lay_out_what_somebody_has_open(self):
        self.init()
        db = sqlite3.connect(self.db)
        db.execute("SELECT count(*) FROM outbox").fetchall()
        self.refused(LOCKED, "stop the relay and the application first",
                     "init", self.db, "--prepare", "6000000", "--wait", "50")
        db.close()
        self.init("--prepare", "6000000")

    def test_put_payload_comes_from_text_file_or_standard_input(self):
        self.init()
        raw = bytes(range(256))
        with open(self.path("raw"), "wb") as file:
            file.write(raw)
        self.put("t", "grüße")
        self.ok("put", self.db, "t", "-f", self.path("raw"))
        self.ok("put", self.db, "t", "-", stdin=raw[::-1])
        self.ok("put", self.db, "t", "-", stdin=b"")
        self.assertEqual(
            self.sql("SELECT payload FROM outbox ORDER BY seq"),
            [("grüße",), (raw,), (raw[::-1],), (b"",)])

    def test_put_prints_the_id_and_stores_every_attribute(self):
        self.init()
        text = self.put("a/b", "x", "--key", "k", "--key-version", "3",
                        "--priority", "2", "--type", "com.example.reading",
                        "--content-type", "text/plain", "--retain", "--ttl",
                        "60000", "--dest", "main", "--headers",
                        '{"subject":"s"}', "--coalesce", "c")
        row = self.sql("SELECT id, key, key_version, priority, type,"
                       " content_type, retain, ttl_ms, dest, headers,"
                       " coalesce FROM outbox")[0]
        self.assertEqual(row, (uuid.UUID(text).bytes, "k", 3, 2,
                               "com.example.reading", "text/plain", 1, 60000,
                               "main", '{"subject":"s"}', "c"))

    def test_put_replaces_what_coalesces(self):
        self.init()
        for text in ("1", "2", "3"):
            self.put("t", text, "--coalesce", "level")
        self.assertEqual(
            [row["seq"] for row in
             self.json("ls", self.db, "--state", "pending")], [3])
        self.assertEqual(self.status()["dropped_coalesced"], 2)

    def test_put_mistakes_are_named_and_queue_nothing(self):
        self.init()
        self.refused(USAGE, "payload once", "put", self.db, "t")
        self.refused(USAGE, "payload once", "put", self.db, "t", "-m", "x",
                     "-")
        self.refused(USAGE, "payload once", "put", self.db, "t", "x")
        self.refused(ERROR, "topic", "put", self.db, "a/#", "-m", "x")
        self.refused(ERROR, "topic", "put", self.db, "a/#", "-m", "x",
                     "--dest", "main")
        self.refused(NOT_FOUND, "destination", "put", self.db, "t", "-m", "x",
                     "--dest", "nowhere")
        self.refused(ERROR, "headers", "put", self.db, "t", "-m", "x",
                     "--headers", "[1]")
        self.refused(NOT_FOUND, "no-file", "put", self.db, "t", "-f",
                     self.path("no-file"))
        self.assertEqual(self.status()["put"], 0)


class Status(CliTest):
    def test_status_counts_balance(self):
        self.init()
        for i in range(5):
            self.put("t", "x" * i)
        self.sql(KILL.format(2), SETTLE.format(3),
                 "UPDATE outbox_cursor SET delivered = 1 WHERE lane = 0")
        s = self.status()
        self.assertEqual(
            [s[name] for name in ("put", "pending", "delivered", "dead",
                                  "held", "ledger_gap", "put_bytes")],
            [5, 2, 1, 2, 0, 0, 15])
        self.assertGreater(s["oldest_age_ms"], 0)
        self.assertEqual((s["relay"], s["link"]), ("stopped", "down"))

    def test_status_says_it_for_people(self):
        self.init()
        self.put("t", "xyz")
        text = self.ok("status", self.db, "--run-dir", self.run_dir)
        self.assertRegex(text, r"(?m)^pending +1 \(4 B\)")
        self.assertRegex(text, r"(?m)^oldest +0\.\d s")
        self.assertRegex(text, r"(?m)^link +down \(no relay runs\)")
        self.assertNotIn("LEDGER", text)

    def test_status_tells_why_messages_were_dropped(self):
        self.init()
        self.put("t", "x")
        self.assertNotIn("coalesced", self.ok("status", self.db))
        for _ in range(3):
            self.sql("INSERT INTO outbox(topic, payload, coalesce)"
                     " VALUES ('t', '', 'c')")
        s = self.status()
        self.assertEqual((s["dropped"], s["dropped_coalesced"],
                          s["dropped_ttl"], s["ledger_gap"]), (2, 2, 0, 0))
        self.assertRegex(self.ok("status", self.db),
                         r"(?m)^dropped +0 ttl, 0 limit, 2 coalesced,")

    def test_status_gap_in_the_ledger_is_shown(self):
        self.init()
        self.put("t", "x")
        self.sql(SETTLE.format(1))
        self.assertEqual(self.status()["ledger_gap"], 1)
        self.assertIn("LEDGER", self.ok("status", self.db))

    def test_status_what_may_have_crashed_the_relay(self):
        self.init()
        self.put("t", "x")
        self.assertNotIn("on trial", self.ok("status", self.db))
        self.sql("UPDATE outbox_cursor SET sent_hi = 1, tried = 1, deaths = 2"
                 " WHERE lane = 0")
        self.assertEqual(self.status()["on_trial"], 1)
        self.assertRegex(self.ok("status", self.db),
                         r"(?m)^on trial +1 in flight when the relay crashed")

    def test_status_storage_and_inbox(self):
        self.init()
        self.sql("INSERT INTO inbox(consumer, id, state, received_ms, error)"
                 " VALUES ('c', 'a', 'dead', 1, 'expired: too late'),"
                 " ('c', 'c', 'dead', 1, 'rejected'),"
                 " ('c', 'b', 'due', 1, NULL)")
        report = self.json("status", self.db)
        self.assertEqual(report["inbox"],
                         {"due": 1, "deferred": 0, "done": 0, "dead": 2,
                          "expired": 1, "claimed": 0, "max_rows": 100000,
                          "bytes": 0, "max_bytes": 67108864, "forgotten": 0})
        plain = self.ok("status", self.db)
        self.assertIn("2 dead (1 expired)", plain)
        self.assertNotIn("forgotten", plain)
        self.sql("UPDATE inbox_sum SET forgotten = 12")
        self.assertIn("12 done ones forgotten", self.ok("status", self.db))
        database = report["database"]
        self.assertEqual(database["path"], self.db)
        self.assertEqual(database["page_bytes"], 4096)
        self.assertGreater(database["db_bytes"], 40000)

    def test_status_one_of_several_destinations(self):
        self.init()
        self.sql("INSERT INTO outbox_dest(name) VALUES ('cloud')")
        names = [d["dest"] for d in self.json("status", self.db)["destinations"]]
        self.assertEqual(names, ["cloud", "main"])
        report = self.json("status", self.db, "--dest", "cloud")
        self.assertEqual(len(report["destinations"]), 1)
        self.refused(NOT_FOUND, "destination", "status", self.db, "--dest",
                     "nowhere")


class Verify(CliTest):
    def setUp(self):
        super().setUp()
        self.init()
        for i in range(5):
            self.put("t", "x" * i)
        self.sql(KILL.format(1), SETTLE.format(3),
                 "UPDATE outbox_cursor SET settled_bytes = 6, delivered = 1,"
                 " dropped = 1 WHERE lane = 0",
                 "INSERT INTO outbox_lost VALUES ('main', 2, 2, 1, 2,"
                 " 'ttl', 1, 1)")

    def test_verify_sound_ledger_is_printed(self):
        self.assertEqual(
            self.ok("verify", self.db),
            "main: 5 put = 1 delivered + 2 pending + 0 held + 1 dead"
            " + 1 dropped + 0 passed\n  dropped, ttl: 1\nsound\n")
        self.assertEqual(self.json("verify", self.db), {
            "findings": [], "destinations": [{
                "dest": "main", "put": 5, "delivered": 1, "pending": 2,
                "held": 0, "dead": 1, "dropped": 1, "passed": 0, "replayed": 0,
                "reasons": [{"reason": "ttl", "messages": 1, "bytes": 2}]}],
            "sound": True})

    def test_verify_findings_are_told_and_end_with_their_own_code(self):
        self.sql("UPDATE outbox_cursor SET delivered = 2 WHERE lane = 0")
        text = "3 rows are settled and 0 replayed, but 2 delivered + 1 held"
        plain = self.run_cli("verify", self.db)
        self.assertEqual((plain.returncode, plain.err), (UNSOUND, ""))
        self.assertIn("ledger main: " + text, plain.out)
        self.assertNotIn("sound", plain.out)
        report = self.run_cli("verify", self.db, "-o", "json")
        self.assertEqual(report.returncode, UNSOUND)
        report = json.loads(report.out)
        self.assertFalse(report["sound"])
        finding, = report["findings"]
        self.assertEqual((finding["check"], finding["dest"]),
                         ("ledger", "main"))
        self.assertIn(text, finding["text"])

    def test_verify_escapes_what_was_damaged(self):
        self.sql("UPDATE outbox_lost SET reason = 'a\x1bb'")
        result = self.run_cli("verify", self.db)
        self.assertEqual(result.returncode, UNSOUND)
        self.assertIn("reason cannot be 'a\\x1bb'", result.out)
        self.assertIn("dropped, a\\x1bb: 1", result.out)

    def test_verify_each_damage_ends_with_its_own_code(self):
        shutil.copy(self.db, self.path("sound.db"))
        for damage, text in (
                ("DELETE FROM outbox_sum", "total: there is none"),
                ("DELETE FROM outbox_dest", "dest: there is none"),
                ("DELETE FROM outbox_meta WHERE key = 'schema_version'",
                 "file: outbox_meta has no schema_version"),
                ("DELETE FROM outbox_meta WHERE key = 'max_rows'",
                 "meta: there is no max_rows"),
                ("DROP TABLE outbox_meta", "file: table outbox_meta is"),
                ("DROP TABLE outbox_dest", "schema: table outbox_dest is")):
            self.sql(damage)
            result = self.run_cli("verify", self.db)
            self.assertEqual(result.returncode, UNSOUND)
            self.assert_hint(result, text.startswith("file: "))
            self.assertIn(text, result.out)
            shutil.copy(self.path("sound.db"), self.db)
        self.ok("verify", self.db)

    def assert_hint(self, result, is_wanted):
        """A damaged file has a next step."""
        self.assertEqual(result.err.count("\n"), int(is_wanted), result.err)
        self.assertEqual("doctor --salvage" in result.err, is_wanted)

    def test_verify_what_cannot_be_opened_is_a_finding(self):
        for offset, text in ((0, "file is not a database"),
                             (44, "unsupported file format"),
                             (100, "malformed")):
            copy = self.path("copy.db")
            shutil.copy(self.db, copy)
            with open(copy, "r+b") as file:
                file.seek(offset)
                file.write(b"damage")
            result = self.run_cli("verify", copy)
            self.assertEqual(result.returncode, UNSOUND)
            self.assert_hint(result, True)
            self.assertTrue(result.out.startswith("file: "), result.out)
            self.assertIn(text, result.out)
            report = self.run_cli("verify", copy, "-o", "json")
            self.assertEqual(report.returncode, UNSOUND)
            report = json.loads(report.out)
            self.assertEqual((report["sound"], report["destinations"]),
                             (False, []))
            self.assertEqual(report["findings"][0]["check"], "file")

    def test_verify_what_is_no_outbox_is_an_error(self):
        self.refused(NOT_FOUND, "gone.db", "verify", self.path("gone.db"))
        self.refused(ERROR, "postbag init makes it", "verify",
                     self.write("empty.db", ""))
        self.sql("UPDATE outbox_meta SET value = 99"
                 " WHERE key = 'schema_version'")
        self.refused(ERROR, "version 99", "verify", self.db)

    def test_verify_copies(self):
        self.put("t", "x")
        vacuumed, dumped = self.path("vacuumed.db"), self.path("dumped.db")
        self.sql(f"VACUUM INTO '{vacuumed}'")
        dump = subprocess.run(["sqlite3", self.db, ".dump"], check=True,
                              capture_output=True)
        subprocess.run(["sqlite3", dumped], input=dump.stdout, check=True)
        for copy in vacuumed, dumped:
            self.assertIn("sound", self.ok("verify", copy))
            with contextlib.closing(sqlite3.connect(copy)) as db:
                mode, = db.execute("PRAGMA journal_mode").fetchone()
            self.assertEqual(mode, "delete")  # no engine has opened it
            self.ok("put", copy, "t", "-m", "y")
            self.assertIn("sound", self.ok("verify", copy))

    def test_verify_damaged_pages(self):
        with open(self.db, "r+b") as file:
            file.seek(4096 * 5)
            file.write(b"damage" * 300)
        result = self.run_cli("verify", self.db)
        self.assertEqual(result.returncode, UNSOUND)
        self.assertIn("file: ", result.out)


class Replay(CliTest):
    def setUp(self):
        super().setUp()
        self.init()
        for i in range(4):
            self.put("t", str(i))
        self.sql("UPDATE outbox_cursor SET acked = 3, sent_hi = 3,"
                 " settled_rows = 3, settled_bytes = 6, delivered = 3"
                 " WHERE lane = 0")

    def test_replay_by_number_or_time(self):
        self.assertEqual(
            self.ok("replay", self.db, "--from", "1", "--limit", "1"),
            "1 queued once more; there are more: --from 2\n")
        self.assertEqual(
            self.ok("replay", self.db, "--from", "1", "--to", "2"),
            "1 queued once more\n")
        self.assertEqual(
            self.ok("replay", self.db, "--from", "2100-01-01"),
            "0 queued once more\n")
        self.assertEqual(
            self.ok("replay", self.db, "--from", "1970-01-02T00:00:00Z",
                    "--to", "2100-01-01"),
            "1 queued once more\n")
        self.assertIn("4 put + 3 replayed = 3 delivered",
                      self.ok("verify", self.db))
        self.assertIn("3 replayed\n", self.ok("status", self.db))

    def test_replay_times_are_rfc_3339(self):
        def count(*args):
            text = self.ok("replay", self.db, "--from", *args)
            self.sql("DELETE FROM outbox_held")
            return int(text.split()[0])

        self.db = self.path("old.db")
        self.init()
        self.sql("INSERT INTO outbox(topic, payload, created_ms) VALUES"
                 " ('t', '1', 1000), ('t', '2', 2000), ('t', '3', 3000)",
                 SETTLE.format(3))
        for first, rows in (
                ("1970-01-01", 3), ("1970-01-01T00:00:00Z", 3),
                ("1969-12-31", 3), ("0001-01-01T00:00:00Z", 3),
                ("1970-01-01T00:00:02Z", 2), ("1970-01-01t00:00:02z", 2),
                ("1970-01-01 00:00:02+00:00", 2),
                ("1970-01-01T00:00:02.000999Z", 2),
                ("1970-01-01T00:00:02.001Z", 1),
                ("1970-01-01T00:00:02.5Z", 1),
                ("1970-01-01T02:30:03+02:30", 1),
                ("1969-12-31T23:00:03.001-01:00", 0),
                ("1970-01-01T00:00:60Z", 0), ("9999-12-31", 0)):
            self.assertEqual(count(first), rows, first)
        for last, rows in (
                ("1969-12-31T23:59:59.999Z", 0), ("1970-01-01", 0),
                ("1970-01-01T00:00:00Z", 0), ("0000-01-01", 0),
                ("1970-01-01T00:00:01.999Z", 1),
                ("1970-01-01T01:00:02+01:00", 2), ("2024-02-29", 3)):
            self.assertEqual(count("1", "--to", last), rows, last)

    def test_replay_mistakes_are_named(self):
        self.refused(USAGE, "--from SEQ or TIME", "replay", self.db)
        for bound in ("x", "0", "-1", "2026-13-01", "2026-00-01",
                      "2026-02-29", "2026-04-31", "2026-01-00", "2026-1-1",
                      "2026-01-01T", "2026-01-01T08:00Z", "2026-01-01 08:00",
                      "2026-01-01T08:00:00", "2026-01-01T24:00:00Z",
                      "2026-01-01T08:60:00Z", "2026-01-01T08:00:61Z",
                      "2026-01-01T08:00:00.Z", "2026-01-01T08:00:00+1",
                      "2026-01-01T08:00:00+24:00", "2026-01-01T08:00:00ZZ",
                      " 2026-01-01", "+2026-01-01"):
            self.refused(USAGE, bound, "replay", self.db, "--from=" + bound)
            self.refused(USAGE, bound, "replay", self.db, "--from", "1",
                         "--to=" + bound)
        self.refused(NOT_FOUND, "no destination", "replay", self.db, "--from",
                     "1", "--dest", "moon")
        self.refused(USAGE, "10000", "replay", self.db, "--from", "1",
                     "--limit", "10001")


class Archive(CliTest):
    def settle(self, seq):
        self.sql(f"UPDATE outbox_cursor SET acked = {seq}, sent_hi = {seq},"
                 f" settled_rows = {seq} WHERE lane = 0")

    def test_archive_appends_what_is_new(self):
        self.init()
        ids = [self.put("t", "grüße", "--key", "k", "--headers",
                        '{"a":"b"}'),
               self.ok("put", self.db, "t", "-", stdin=b"\0\xff").strip(),
               self.put("t", "3")]
        self.settle(2)
        file = self.path("log.jsonl")
        self.assertEqual(self.ok("archive", self.db, "--to", file),
                         "2 archived\n")
        self.assertEqual(self.ok("archive", self.db, "--to", file),
                         "0 archived\n")
        self.settle(3)
        self.ok("archive", self.db, "--to", file)
        with open(file, encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        self.assertEqual([row["id"] for row in rows], ids)
        self.assertEqual([row["seq"] for row in rows], [1, 2, 3])
        first = rows[0]
        self.assertEqual(
            (first["dest"], first["state"], first["topic"], first["key"],
             first["headers"], first["payload"]),
            ("main", "published", "t", "k", '{"a":"b"}', "grüße"))
        self.assertEqual(base64.b64decode(rows[1]["payload_base64"]),
                         b"\0\xff")
        self.assertNotIn("payload", rows[1])

    def test_archive_to_standard_output_has_lines_only(self):
        self.init()
        self.put("t", "x")
        self.settle(1)
        lines = self.ok("archive", self.db, "--to", "-").splitlines()
        self.assertEqual([json.loads(line)["seq"] for line in lines], [1])

    def test_archive_that_cannot_be_written_forgets_nothing(self):
        self.init()
        self.put("t", "x")
        self.settle(1)
        self.refused(ERROR, "/dev/full", "archive", self.db, "--to",
                     "/dev/full")
        self.refused(ERROR, "no/log", "archive", self.db, "--to",
                     self.path("no/log"))
        self.refused(USAGE, "--to FILE", "archive", self.db)
        self.refused(NOT_FOUND, "no destination", "archive", self.db, "--to",
                     self.path("log"), "--dest", "moon")
        self.assertIn('"seq":1', self.ok("archive", self.db, "--to", "-"))

    def test_archive_tells_what_was_deleted_before(self):
        self.init()
        self.sql("INSERT INTO outbox(topic, payload) WITH RECURSIVE n(i) AS"
                 " (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
                 " SELECT 't', 'x' FROM n")
        self.settle(300)
        self.ok("purge", self.db, "--yes")
        result = self.run_cli("archive", self.db, "--to", self.path("log"))
        self.assertEqual((result.returncode, result.out),
                         (OK, "44 archived\n"))
        self.assertIn("256 rows were deleted before", result.err)
        self.ok("archive", self.db, "--to", self.path("log"))


class Vacuum(CliTest):
    def test_vacuum_gives_space_back_when_nobody_has_it_open(self):
        self.init()
        self.put("t", "x")
        self.sql("CREATE TABLE mine(x)",
                 "INSERT INTO mine VALUES (zeroblob(1000000))",
                 "DELETE FROM mine")
        db = sqlite3.connect(self.db)
        db.execute("SELECT count(*) FROM outbox").fetchall()
        self.refused(LOCKED, "somebody has the database open", "vacuum",
                     self.db, "--wait", "50")
        db.close()
        before = os.path.getsize(self.db)  # the last to leave took the WAL
        text = self.ok("vacuum", self.db)
        after = os.path.getsize(self.db)
        self.assertRegex(text, rf"^{before} bytes .* before, {after} \(")
        self.assertLess(after, 200000)
        self.assertIn("sound", self.ok("verify", self.db))
        self.refused(NOT_FOUND, "no.db", "vacuum", self.path("no.db"))


class Ls(CliTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.ids = [self.put(topic, "x", "--key", "k" + topic)
                    for topic in ("a/1", "a/2", "b/1", "b/2")]
        self.sql(KILL.format(1), SETTLE.format(2))

    def seqs(self, *args):
        return [row["seq"] for row in self.json("ls", self.db, *args)]

    def test_ls_rows_have_state_and_attributes(self):
        rows = self.json("ls", self.db)
        self.assertEqual([row["state"] for row in rows],
                         ["dead", "published", "pending", "pending"])
        self.assertEqual([row["id"] for row in rows], self.ids)
        self.assertEqual(rows[0]["error"], "not authorized (0x87)")
        self.assertEqual(rows[0]["attempts"], 12)
        self.assertRegex(rows[2]["created"],
                         r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((rows[2]["topic"], rows[2]["key"], rows[2]["bytes"]),
                         ("b/1", "kb/1", 1))

    def test_ls_of_nothing_prints_nothing_but_why(self):
        for args in (["ls", self.db, "--dest", "nope"],
                     ["dead", "ls", self.db, "--dest", "nope"],
                     ["ls", self.db, "--dest", "nope", "-o", "json"]):
            result = self.run_cli(*args)
            self.assertEqual((result.returncode, result.out),
                             (NOT_FOUND, ""), args)
            self.assertIn("no destination", result.err)
        self.assertEqual(self.json("ls", self.db, "--state", "sending"), [])
        self.assertRegex(self.ok("inbox", "ls", self.db), "^ *ARRIVAL .*\n$")
        self.sql("DROP TABLE inbox", "DROP TABLE outbox_cursor")
        for name in ("dest", "inbox"):
            result = self.run_cli(name, "ls", self.db)
            self.assertNotEqual(result.returncode, OK)
            self.assertEqual(result.out, "")

    def test_ls_times_before_1970_are_times(self):
        for ms, text in ((-5, "1969-12-31T23:59:59.995Z"),
                         (-1000, "1969-12-31T23:59:59.000Z"),
                         (-1001, "1969-12-31T23:59:58.999Z"),
                         (1, "1970-01-01T00:00:00.001Z"),
                         (-2 ** 63, None), (2 ** 63 - 1, None)):
            self.sql("INSERT INTO outbox(topic, payload, created_ms) VALUES"
                     f" ('t', '', {ms})")
            row = self.json("ls", self.db)[-1]
            self.assertEqual(row["created"], text)

    def test_ls_filters(self):
        self.assertEqual(self.seqs("--state", "pending"), [3, 4])
        self.assertEqual(self.seqs("--state", "published"), [2])
        self.assertEqual(self.seqs("--topic", "b/"), [3, 4])
        self.assertEqual(self.seqs("--limit", "2"), [1, 2])
        self.assertEqual(self.seqs("--after", "2", "--limit", "1"), [3])
        self.refused(USAGE, "--state", "ls", self.db, "--state", "happy")

    def test_ls_json_lines_and_table_say_the_same(self):
        lines = self.ok("ls", self.db, "-o", "jsonl").splitlines()
        self.assertEqual([json.loads(line) for line in lines],
                         self.json("ls", self.db))
        table = self.ok("ls", self.db).splitlines()
        self.assertEqual(table[0].split()[:3], ["SEQ", "ID", "STATE"])
        self.assertEqual([line.split()[1] for line in table[1:]], self.ids)

    def test_ls_dead_lists_the_dead_only(self):
        rows = self.json("dead", "ls", self.db)
        self.assertEqual([row["seq"] for row in rows], [1])

    def test_ls_control_characters_do_not_reach_the_terminal(self):
        # ESC, C1 CSI as UTF-8, DEL, and a byte that is no UTF-8
        self.sql("DROP TRIGGER outbox_check",  # should one get in
                 "INSERT INTO outbox(topic, payload, key) VALUES"
                 " ('t', '', CAST(x'1b5b316d c29b 7f ff 22' AS TEXT))"
                 .replace(" c29b 7f ff 22", "c29b7fff22"))
        table = self.run_cli("ls", self.db, "--after", "4").stdout
        self.assertIn(rb'\x1b[1m\xc2\x9b\x7f\xff"', table)
        self.assertNotIn(b"\xc2\x9b", table)
        row = self.json("ls", self.db, "--after", "4")[0]
        self.assertEqual(row["key"], '\x1b[1m\x9b\x7f\ufffd"')

    def test_ls_error_texts_do_not_reach_the_terminal_as_they_are(self):
        hostile = b'no\n\x1b[2J"\x9b\xe2\x80\xae' # as another hand may write
        self.sql("UPDATE outbox_held SET error ="
                 f" CAST(x'{hostile.hex()}' AS TEXT)")
        for command in (["dead", "ls", self.db], ["show", self.db, "1"],
                        ["ls", self.db]):
            out = self.run_cli(*command).stdout
            self.assertNotIn(b"\x1b", out, command)
            self.assertNotIn(b"no\n", out, command)
            self.assertNotIn(b"\x9b", out, command)
        self.assertIn(rb'no\x0a\x1b[2J"\x9b', out)

    def test_ls_colours_only_on_a_terminal_that_wants_them(self):
        def on_terminal(*args, **env):
            ours, theirs = pty.openpty()
            text = b""
            with os.fdopen(ours, "rb", 0) as screen:
                subprocess.run([POSTBAG, "ls", self.db, *args], stdout=theirs,
                               env={**os.environ, **env}, check=True)
                os.close(theirs)
                with contextlib.suppress(OSError):  # EIO: nobody writes
                    while chunk := screen.read(65536):
                        text += chunk
            return text

        self.assertIn(b"\x1b[31mdead", on_terminal())
        self.assertNotIn(b"\x1b", on_terminal("--no-color"))
        self.assertNotIn(b"\x1b", on_terminal(NO_COLOR="1"))
        self.assertNotIn("\x1b", self.ok("ls", self.db))


class Show(CliTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.id = self.put("t", 'line "1"\nline\t2')

    def test_show_by_number_or_id_hides_the_payload(self):
        for name in ("1", self.id, self.id.upper()):
            text = self.ok("show", self.db, name)
            self.assertIn(self.id, text)
            self.assertNotIn("line", text)
        self.assertNotIn("payload", self.json("show", self.db, "1"))

    def test_show_payload_as_text_hex_and_base64(self):
        raw = b'line "1"\nline\t2'

        def form(name):
            return self.ok("show", self.db, "1", "--payload", name)

        def form_json(name):
            return self.json("show", self.db, "1", "--payload",
                             name)["payload"]

        self.assertTrue(form("text").endswith('\n\nline "1"\nline\\x092\n'))
        self.assertTrue(form("hex").endswith("\n\n" + raw.hex() + "\n"))
        self.assertEqual(form_json("text").encode(), raw)
        self.assertEqual(bytes.fromhex(form_json("hex")), raw)
        for length in range(len(raw) + 1):
            self.ok("put", self.db, "t", "-", stdin=raw[:length])
            shown = self.json("show", self.db, str(2 + length), "--payload",
                              "base64")["payload"]
            self.assertEqual(base64.b64decode(shown, validate=True),
                             raw[:length])

    def test_show_mistakes_and_absence(self):
        self.refused(USAGE, '"12x"', "show", self.db, "12x")
        self.refused(USAGE, "--payload", "show", self.db, "1", "--payload",
                     "yaml")
        self.refused(NOT_FOUND, "2", "show", self.db, "2")
        self.refused(NOT_FOUND, "no such message", "show", self.db,
                     str(uuid.uuid4()))


class Repair(CliTest):
    def setUp(self):
        super().setUp()
        self.init()
        self.ids = [self.put("t", "x", "--key", "k") for _ in range(3)]
        self.sql(KILL.format(3), SETTLE.format(3))

    def states(self):
        return [row["state"] for row in self.json("ls", self.db)]

    def requeue(self, *args):
        return self.ok("dead", "requeue", self.db, *args)

    def test_requeue_by_id_and_number_in_the_order_of_the_key(self):
        self.assertEqual(self.requeue("--id", self.ids[2]), "1 requeued\n")
        self.assertEqual(self.states(), ["dead", "dead", "retry"])
        self.assertEqual(self.requeue("--seq", "2"), "1 requeued\n")
        self.assertEqual(self.states(), ["dead", "retry", "behind"])
        self.assertEqual(
            [row["id"] for row in self.json("ls", self.db)], self.ids)

    def test_requeue_all(self):
        self.assertEqual(self.requeue("--all"), "3 requeued\n")
        self.assertEqual(self.states(), ["retry", "behind", "behind"])
        self.assertEqual(self.requeue("--all"), "0 requeued\n")
        s = self.status()
        self.assertEqual((s["held"], s["dead"], s["ledger_gap"]), (3, 0, 0))

    def test_requeue_by_name_hurries_what_is_tried_again(self):
        self.sql("UPDATE outbox_held SET state = 'retry', due_ms = 9e15,"
                 " due_boot = zeroblob(16), dead_ms = NULL WHERE seq = 1")
        self.assertEqual(self.requeue("--all"), "2 requeued\n")
        self.assertEqual(self.requeue("--seq", "1"), "1 requeued\n")
        self.assertEqual(
            self.sql("SELECT state, attempts, due_ms FROM outbox_held"),
            [("retry", 12, None), ("behind", 0, None), ("behind", 0, None)])
        self.refused(NOT_FOUND, "another try", "dead", "requeue", self.db,
                     "--seq", "2")

    def test_requeue_mistakes_change_nothing(self):
        args = ("dead", "requeue", self.db)
        self.refused(USAGE, "say which", *args)
        self.refused(USAGE, "say which", *args, "--all", "--seq", "1")
        self.refused(USAGE, "not an id", *args, "--id", "1")
        self.refused(NOT_FOUND, "among the dead", *args, "--seq", "4")
        self.refused(NOT_FOUND, "among the dead", *args, "--id",
                     str(uuid.uuid4()))
        self.assertEqual(self.states(), ["dead"] * 3)

    def test_discard_is_counted_and_told(self):
        args = ("dead", "discard", self.db)
        self.requeue("--all")
        self.assertEqual(self.ok(*args, "--seq", "1", "--yes"),
                         "1 discarded\n")
        self.assertEqual(self.ok(*args, "--id", self.ids[2], "--yes"),
                         "1 discarded\n")
        s = self.status()
        self.assertEqual((s["held"], s["dead"], s["dropped"],
                          s["ledger_gap"]), (1, 0, 2, 0))
        self.assertEqual(
            self.sql("SELECT lo, hi, n, reason FROM outbox_lost"),
            [(1, 1, 1, "discarded"), (3, 3, 1, "discarded")])
        self.assertRegex(self.ok("show", self.db, "1"),
                         r"(?m)^reason +discarded$")
        self.assertNotIn("reason", self.ok("show", self.db, "2"))
        self.assertEqual(self.json("show", self.db, "3")["reason"],
                         "discarded")

    def test_discard_mistakes_change_nothing(self):
        args = ("dead", "discard", self.db)
        self.refused(USAGE, "say which", *args, "--yes")
        self.refused(USAGE, "say which", *args, "--yes", "--seq", "1", "--id",
                     self.ids[0])
        self.refused(USAGE, "not an id", *args, "--yes", "--id", "1")
        self.refused(USAGE, "--yes", *args, "--seq", "1")
        self.refused(NOT_FOUND, "held and dead", *args, "--yes", "--seq", "4")
        self.assertEqual(self.states(), ["dead"] * 3)

    def test_purge_wants_yes_and_keeps_the_dead(self):
        self.sql("WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
                 " SELECT i + 1 FROM n WHERE i < 1000)"
                 " INSERT INTO outbox(topic, payload) SELECT 't', i FROM n"
                 .replace("SELECT 't', i", "SELECT 't', CAST(i AS TEXT)"),
                 *[f"UPDATE outbox_cursor SET acked = 600 WHERE lane = {lane}"
                   for lane in range(4)])
        self.refused(USAGE, "--yes", "purge", self.db)
        self.assertEqual(self.ok("purge", self.db, "--yes"), "600 deleted\n")
        self.assertEqual(self.sql("SELECT min(seq) FROM outbox"), [(601,)])
        self.assertEqual(len(self.json("dead", "ls", self.db)), 3)


class Inbox(CliTest):
    def test_inbox_ls_shows_and_filters(self):
        self.init()
        self.sql("INSERT INTO inbox(consumer, source, id, state, topic,"
                 " received_ms, processed_ms, seen) VALUES"
                 " ('door', 's', 'abc', 'done', 'cmd/1', 1700000000000,"
                 "  1700000001500, 2),"
                 " ('door', '', x'00ff', 'due', 'cmd/2', 1700000000000, NULL,"
                 "  1)")
        rows = self.json("inbox", "ls", self.db)
        self.assertEqual([row["id"] for row in rows], ["abc", "00ff"])
        self.assertEqual(rows[0]["processed"], "2023-11-14T22:13:21.500Z")
        self.assertIsNone(rows[1]["processed"])
        self.assertEqual(rows[0]["seen"], 2)
        self.assertEqual(
            [row["arrival"] for row in
             self.json("inbox", "ls", self.db, "--state", "due")], [2])
        self.assertEqual(
            self.json("inbox", "ls", self.db, "--consumer", "pump"), [])
        self.assertTrue(re.search("cmd/1", self.ok("inbox", "ls", self.db)))
        self.refused(USAGE, "--state", "inbox", "ls", self.db, "--state", "x")

    def fill(self):
        self.init()
        self.sql("INSERT INTO inbox(consumer, id, state, payload, received_ms,"
                 " processed_ms) VALUES ('door', 'a', 'dead', '', 1, 2),"
                 " ('door', 'b', 'dead', '', 1, 2),"
                 " ('pump', 'a', 'dead', '', 1, 2)")

    def states(self):
        return [row["state"] for row in self.json("inbox", "ls", self.db)]

    def test_inbox_requeue_one_a_consumer_s_or_all(self):
        self.fill()
        args = ("inbox", "requeue", self.db)
        self.assertEqual(self.ok(*args, "--id", "a", "--consumer", "pump"),
                         "1 requeued\n")
        self.assertEqual(self.states(), ["dead", "dead", "due"])
        self.assertEqual(self.ok(*args, "--arrival", "2"), "1 requeued\n")
        self.assertEqual(self.ok(*args, "--all"), "1 requeued\n")
        self.assertEqual(self.ok(*args, "--all"), "0 requeued\n")

    def test_inbox_discard_wants_yes(self):
        self.fill()
        args = ("inbox", "discard", self.db)
        self.refused(USAGE, "--yes", *args, "--all")
        self.assertEqual(self.states(), ["dead"] * 3)
        self.assertEqual(self.ok(*args, "--id", "a", "--yes"),
                         "2 discarded\n")
        self.assertEqual(self.states(), ["done", "dead", "done"])

    def test_inbox_repair_mistakes_change_nothing(self):
        self.fill()
        for args in (("inbox", "requeue", self.db),
                     ("inbox", "discard", self.db, "--yes")):
            self.refused(USAGE, "say which", *args)
            self.refused(USAGE, "say which", *args, "--all", "--id", "a")
            self.refused(NOT_FOUND, "no such command", *args, "--id", "c")
        self.assertEqual(self.states(), ["dead"] * 3)


if __name__ == "__main__":
    unittest.main()
