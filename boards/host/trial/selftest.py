#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The checker sees each kind of damage, and the wire is read right."""
import os
import sqlite3
import sys
import tempfile
import unittest
import uuid
from types import SimpleNamespace

sys.dont_write_bytecode = True
import verdict  # noqa: E402
import wire  # noqa: E402

IDS = [str(uuid.UUID(int=n)) for n in range(5)]
REPLY = f"x'{uuid.UUID(IDS[4]).hex}'"  # its id, in SQL


def heard(name, key, version, topic="gw/host/evt/load", number=None):
    properties = {"user-properties": {"id": name, "partitionkey": key,
                                      "keyversion": str(version)}}
    if number is not None:
        properties["correlation-data"] = number
    return name, {"topic": topic, "properties": properties}


class VerdictTest(unittest.TestCase):
    """Three readings, an alarm and the reply to one command."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "db")
        kinds = ["reading", "reading", "reading", "alarm", "reply"]
        self.change("CREATE TABLE ledger(id, kind, put_us)",
                    "CREATE TABLE sensor(version, alarms)",
                    "CREATE TABLE outbox(seq, id)",
                    "CREATE TABLE effect(command)",
                    "CREATE TABLE inbox(seen)",
                    "INSERT INTO sensor VALUES (3, 1)",
                    f"INSERT INTO outbox VALUES (5, {REPLY})",
                    "INSERT INTO effect VALUES ('c')",
                    "INSERT INTO inbox VALUES (2)",
                    *(f"INSERT INTO ledger VALUES (x'{uuid.UUID(i).hex}',"
                      f" '{kind}', 0)" for i, kind in zip(IDS, kinds)))
        self.heard = [
            heard(IDS[0], "load", 1), heard(IDS[1], "load", 2),
            heard(IDS[2], "load", 3), heard(IDS[3], "alarm/load", 1),
            heard(IDS[4], "reply", 1, "gw/host/cmd/set-interval/res", "0")]

    def change(self, *statements):
        db = sqlite3.connect(self.path)
        for sql in statements:
            db.execute(sql)
        db.commit()
        db.close()

    def is_good(self):
        stage = SimpleNamespace(db=self.path, heard_first=self.heard,
                                heard={name: 1 for name, _ in self.heard})
        story = SimpleNamespace(commands=[{"id": "c"}])
        return verdict.Verdict(stage, story).is_good()

    def test_verdict_nothing_wrong_is_good(self):
        self.assertTrue(self.is_good())

    def test_verdict_lost_row_fails(self):
        del self.heard[2]
        self.assertFalse(self.is_good())

    def test_verdict_message_without_row_fails(self):
        self.heard.append(heard(str(uuid.UUID(int=9)), "load", 4))
        self.assertFalse(self.is_good())

    def test_verdict_swapped_key_fails(self):
        self.heard[0], self.heard[1] = self.heard[1], self.heard[0]
        self.assertFalse(self.is_good())

    def test_verdict_state_without_message_fails(self):
        self.change("UPDATE sensor SET version = 4")
        self.assertFalse(self.is_good())

    def test_verdict_message_not_in_ledger_fails(self):
        self.change("INSERT INTO outbox VALUES (6, x'09')")
        self.assertFalse(self.is_good())

    def test_verdict_reply_put_again_is_good_once_per_copy(self):
        self.change(f"INSERT INTO outbox VALUES (6, {REPLY})")
        self.assertTrue(self.is_good())
        self.change(f"INSERT INTO outbox VALUES (7, {REPLY})")
        self.assertFalse(self.is_good())

    def test_verdict_doubled_effect_fails(self):
        self.change("INSERT INTO effect VALUES ('c')")
        self.assertFalse(self.is_good())

    def test_verdict_missing_effect_fails(self):
        self.change("DELETE FROM effect")
        self.assertFalse(self.is_good())

    def test_verdict_unanswered_command_fails(self):
        self.heard[4] = heard(IDS[4], "reply", 1)
        self.assertFalse(self.is_good())


class NumbersTest(unittest.TestCase):
    def test_percentile_hundred_values_takes_nearest_rank(self):
        values = list(range(1, 101))
        self.assertEqual(verdict.percentile(values, 50), 50)
        self.assertEqual(verdict.percentile(values, 99), 99)
        self.assertEqual(verdict.percentile([7], 99), 7)

    def test_undisturbed_messages_of_an_outage_are_left_out(self):
        put = {"a": 0, "b": 90, "c": 150, "d": 900}
        puback = {"a": 10, "b": 500, "c": 510, "d": 905}
        self.assertEqual(verdict.undisturbed(put, puback, [100]), [10, 5])

    def test_commit_lines_cut_by_a_kill_are_left_out(self):
        self.assertEqual(verdict.read_commit_us("load 12\nload 3"), [12])


class WireTest(unittest.TestCase):
    # topic t, packet 7, content type x, id=ab; payload p
    PUBLISH = (b"\x32\x14\x00\x01t\x00\x07\x0d\x03\x00\x01x"
               b"\x26\x00\x02id\x00\x02abp")
    PUBACKS = b"\x40\x02\x00\x07\x40\x03\x00\x08\x87"

    def test_packets_in_any_pieces_are_put_together(self):
        whole = self.PUBLISH + self.PUBACKS
        for cut in range(len(whole) + 1):
            buffer, packets = bytearray(), []
            for piece in (whole[:cut], whole[cut:]):
                buffer += piece
                packets += list(wire.take_packets(buffer))
            self.assertEqual([p[0] for p in packets],
                             [wire.PUBLISH, wire.PUBACK, wire.PUBACK])
            self.assertEqual(wire.read_publish(packets[0][2]),
                             (7, {"id": "ab"}))
            self.assertEqual(wire.read_puback(packets[1][2]), (7, 0))
            self.assertEqual(wire.read_puback(packets[2][2]), (8, 0x87))


if __name__ == "__main__":
    unittest.main()
