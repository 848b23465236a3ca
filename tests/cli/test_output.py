# SPDX-License-Identifier: MIT
"""What is printed: bytes that are no text, colours, files that cannot be."""
import contextlib
import os
import pty
import sqlite3
import subprocess
import unittest

from harness import (CliTest, CONFIG, DEADLINE_S, ERROR, LOCKED, NOT_FOUND,
                     OK, POSTBAG, USAGE)

# no UTF-8: too long, half of a pair, beyond the last, cut off, alone
BROKEN = [b"\xc0\xaf", b"\xe0\x80\xaf", b"\xed\xa0\x80", b"\xf0\x80\x80\xaf",
          b"\xf4\x90\x80\x80", b"\xf8", b"\xff", b"\xc3", b"\xe2\x28\xa1",
          b"\x80"]
WHOLE = ["é", "€", "\U0001f600", "\ud7ff", "\ue000", "\U0010fffd"]


def on_terminal(*args):
    """What stands on the screen."""
    ours, theirs = pty.openpty()
    text = b""
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    with os.fdopen(ours, "rb", 0) as screen:
        process = subprocess.Popen([POSTBAG, *args], stdout=theirs,
                                   stderr=theirs, env=env)
        os.close(theirs)
        with contextlib.suppress(OSError):  # EIO: nobody writes
            while chunk := screen.read(65536):
                text += chunk
        process.wait()
    return text


class Bytes(CliTest):
    def setUp(self):
        super().setUp()
        self.init()

    def held(self, error):
        self.put("t", "x", "--key", "k")
        self.sql("""INSERT INTO outbox_held(dest, seq, state, attempts, error,
            dead_ms, id, topic, payload, key, priority, retain, created_ms)
            SELECT 'main', seq, 'dead', 12, CAST(x'%s' AS TEXT), 1, id, topic,
            payload, key, priority, retain, created_ms FROM outbox
            ORDER BY seq DESC LIMIT 1""" % error.hex())

    def test_output_bytes_that_are_no_text_are_escaped(self):
        for broken in BROKEN:
            self.held(b"<" + broken + b">")
        text = self.ok("dead", "ls", self.db)
        for broken in BROKEN:
            escaped = "".join(chr(b) if b < 0x80 else f"\\x{b:02x}"
                              for b in broken)
            self.assertIn("<" + escaped + ">", text)
        rows = self.json("dead", "ls", self.db)
        for row, broken in zip(rows, BROKEN):
            self.assertTrue(row["error"].startswith("<\ufffd"), broken)

    def test_output_text_of_any_plane_stays(self):
        for text in WHOLE:
            self.held(f'"{text}\\'.encode())
        out = self.ok("dead", "ls", self.db)
        rows = self.json("dead", "ls", self.db)
        for text, row in zip(WHOLE, rows):
            self.assertIn(f'"{text}\\', out)
            self.assertEqual(row["error"], f'"{text}\\')

    def test_show_names_what_a_message_has(self):
        self.put("t", "x", "--key", "k", "--key-version", "7", "--retain",
                 "--ttl", "90000")
        text = self.ok("show", self.db, "1", "--payload", "base64")
        for line in ("key version +7", "retain +yes", "ttl ms +90000",
                     "\n\neA==\n$"):
            self.assertRegex(text, line)
        self.put("t", "")
        for form in ("text", "hex", "base64"):
            self.ok("show", self.db, "2", "--payload", form)

    def test_show_of_what_is_no_name(self):
        for name in ("0", "x", "-", ":", "1x", "/9"):
            result = self.run_cli("show", self.db, "--", name)
            self.assertEqual(result.returncode, USAGE, name)

    def test_ls_with_a_limit_shows_so_many(self):
        for i in range(3):
            self.put(f"t{i}", "x")
        self.assertEqual(len(self.json("ls", self.db, "--limit", "2")), 2)


    def test_numbers_that_are_none_are_refused(self):
        for number in ("5x", "9" * 30, "", "-1", "x"):
            self.refused(USAGE, "--limit must be", "ls", self.db,
                         f"--limit={number}")
        self.assertEqual(self.json("inbox", "ls", self.db, "--limit", "2"),
                         [])
        for moment in ("2026", "2026-11", "2026-11-30T", "2026-11-30x08:00Z"):
            self.assertEqual(self.run_cli("replay", self.db, "--from",
                                          moment).returncode,
                             OK if moment == "2026" else USAGE, moment)

    def test_relay_once_ends_when_it_is_told_to(self):
        self.put("t", "x")
        config = self.write("r.conf", CONFIG.format(
            db=self.db, run_dir=self.run_dir, port=1, base_ms=50, client="c"))
        with subprocess.Popen(
                [POSTBAG, "relay", "--once", "--config", config],
                stderr=subprocess.PIPE) as process:
            self.assertIn(b"relaying", process.stderr.readline())
            process.terminate()
            process.stderr.read()
        self.assertEqual(process.returncode, ERROR)


class Colours(CliTest):
    def test_colours_by_state(self):
        self.init()
        for i in range(4):
            self.put(f"t{i}", "x")
        self.sql("UPDATE outbox_cursor SET acked = 1, sent_hi = 2,"
                 " settled_rows = 1, delivered = 1 WHERE lane = 0")
        text = on_terminal("ls", self.db)
        self.assertIn(b"\x1b[32mpublished", text)
        for state in (b"pending", b"sending"):
            self.assertIn(state, text)
            self.assertNotIn(b"m" + state, text)
        self.sql("INSERT INTO outbox_held(dest, seq, state, attempts, id,"
                 " topic, payload, priority, retain, created_ms)"
                 " SELECT 'main', seq, 'retry', 1, id, topic, payload, 0, 0,"
                 " created_ms FROM outbox WHERE seq = 1")
        self.assertIn(b"\x1b[33mretry", on_terminal("ls", self.db))
        self.sql("UPDATE outbox_held SET state = 'dead'")
        self.assertIn(b"\x1b[31m1\x1b[0m", on_terminal("status", self.db))

    def test_colours_of_commands(self):
        self.init()
        self.sql("INSERT INTO inbox(consumer, source, id, content_hash, state,"
                 " topic, payload, received_ms) VALUES"
                 " ('c', '', '1', zeroblob(32), 'due', 't', 'x', 1),"
                 " ('c', '', '2', zeroblob(32), 'done', 't', 'x', 1)")
        text = on_terminal("inbox", "ls", self.db)
        self.assertIn(b"\x1b[32mdone", text)
        self.assertNotIn(b"mdue", text)

    def test_log_of_a_relay_has_words_on_a_terminal(self):
        """journald gets numbers; see test_relay_locked.py."""
        self.init()
        config = self.write("r.conf", CONFIG.format(
            db=self.db, run_dir=self.run_dir, port=1, base_ms=50, client="c"))
        with sqlite3.connect(self.db) as db:
            db.execute("BEGIN EXCLUSIVE")
            ours, theirs = pty.openpty()
            process = subprocess.Popen(
                [POSTBAG, "relay", "--config", config], stderr=theirs)
            os.close(theirs)
            with os.fdopen(ours, "rb", 0) as screen:
                text = b""
                while b"\n" not in text:  # it comes in pieces
                    text += screen.read(4096)
                process.terminate()
                self.assertEqual(process.wait(DEADLINE_S), OK)
        self.assertIn(b"warning: another process keeps the database", text)


class Files(CliTest):
    def test_put_from_a_file_that_cannot_be_read(self):
        self.init()
        self.refused(ERROR, "directory", "put", self.db, "t", "-f",
                     self.folder)
        self.refused(NOT_FOUND, "No such", "put", self.db, "t", "-f",
                     self.path("none"))
        self.refused(ERROR, "Not a directory", "put", self.db, "t", "-f",
                     self.db + "/x")
        self.ok("put", self.db, "t", "-f", "-", stdin=b"from there")
        big = self.path("big")
        with open(big, "wb") as file:
            file.truncate(64 << 20)
        self.refused(ERROR, "larger than any payload", "put", self.db, "t",
                     "-f", big)
        self.assertEqual(self.sql("SELECT count(*) FROM outbox"), [(1,)])

    def test_commands_on_a_path_below_a_file(self):
        self.init()
        below = self.db + "/x"
        for command in (["dest", "ls"], ["dead", "ls"], ["inbox", "ls"],
                        ["verify"], ["purge", "--yes"],
                        ["vacuum"], ["replay", "--from", "1"],
                        ["archive", "--to", "-"]):
            at = 2 if command[0] in ("dest", "dead", "inbox") else 1
            result = self.run_cli(*command[:at], below, *command[at:])
            self.assertEqual(result.returncode, ERROR, command)
            self.assertIn("Not a directory", result.err)

    def test_missing_files_are_not_found_by_any_command(self):
        for command in (["dest", "add", "{}", "x"],
                        ["dest", "remove", "{}", "x", "--yes"],
                        ["show", "{}", "1"], ["dead", "discard", "{}",
                                              "--seq", "1", "--yes"],
                        ["dead", "requeue", "{}", "--all"],
                        ["put", "{}", "t", "-m", "x"],
                        ["replay", "{}", "--from", "1"],
                        ["archive", "{}", "--to", "-"]):
            words = [w.format(self.db) for w in command]
            self.assertEqual(self.run_cli(*words).returncode, NOT_FOUND,
                             command)
            self.assertFalse(os.path.exists(self.db))

    def test_init_where_no_file_can_be(self):
        self.assertEqual(
            self.run_cli("init", self.path("no/where.db")).returncode, ERROR)

    def test_dest_ls_shows_a_profile(self):
        self.init()
        self.ok("init", self.db, "--profile", "aws")
        self.assertIn("aws", self.ok("dest", "ls", self.db))

    def test_vacuum_of_another_file_is_an_error(self):
        path = self.write("text", "no database, but a text" * 100)
        self.assertIn(self.run_cli("vacuum", path).returncode,
                      (ERROR, LOCKED))


class Configuration(CliTest):
    def complains(self, text, word, mode=0o600):
        path = self.write("r.conf", text, mode)
        self.refused(USAGE, word, "relay", "--config", path)

    def test_config_last_line_without_an_end(self):
        self.complains("[postbag]\ndb = x\n[mqtt]\nuri = nonsense",
                       "uri")
        self.complains("[mqtt]\nuri = " + "x" * 70000, "longer than")
        self.complains("[mqtt]\nuri = x\n" + "[" * 70000, "longer than")

    def test_config_texts_have_their_length(self):
        self.complains("[postbag]\ndb = " + "\n", "db must have 1..4095")
        self.complains("[postbag]\nwindow = x\n", "window must be a number")
        self.complains("[postbag]\nkeep_s = -1\n[nonsense", "keep_s")

    def test_config_all_texts_together_have_room(self):
        longest = "y" * 190
        self.assertEqual(self.run_cli(
            "relay", "--config", self.write(
                "r.conf", f"[postbag]\ndb = {longest}\n[mqtt]\nuri = u\n"
                f"password = {longest}\n", 0o644)).returncode, USAGE)

    def test_config_that_cannot_be_opened(self):
        self.refused(ERROR, "Not a directory", "relay", "--config",
                     self.write("x", "") + "/y")
        self.refused(ERROR, "directory", "relay", "--config", self.folder)


if __name__ == "__main__":
    unittest.main()
