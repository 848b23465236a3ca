# SPDX-License-Identifier: MIT
"""The order of a key around refusals, and what one refused topic costs."""
import itertools
import os
import re
import subprocess
import time

import rig

CPU_SHARE = 0.05
CPU_SPAN_S = 10


class Keys(rig.Case):
    """Messages named after their key: a/1, a/2 ... have the key a."""

    def put(self, *topics):
        self.own.run("BEGIN IMMEDIATE")
        for topic in topics:
            self.own.run("INSERT INTO outbox(topic, payload, key)"
                         " VALUES (?1, ?1, substr(?1, 1, 1))", topic)
        self.own.run("COMMIT")

    def sent(self, key):
        return [t for t in re.findall(r"< PUBLISH .* topic=(\S+)",
                                      self.link.log()) if t[0] in key]

    def dead(self):
        return [row[0] for row in self.own.rows(
            "SELECT topic FROM outbox_held WHERE state = 'dead'"
            " AND error LIKE '%0x87%' AND attempts = 3 ORDER BY seq")]

    def test_refused_head_waits_alone_dies_and_comes_back_in_its_place(self):
        self.link = self.fake_broker("refusetopic=a/1:0x87")
        self.gateway(self.link.uri(), "max_attempts=3", "retry_base_ms=500",
                     "retry_cap_ms=500")
        self.own = self.database()
        self.put("a/1", "a/2", "a/3", "b/1", "b/2", "b/3")
        rig.wait_for(lambda: self.sent("a")[-1:] == ["a/3"], "a goes on")
        self.assertEqual(self.sent("a"), ["a/1"] * 3 + ["a/2", "a/3"])
        self.assertEqual(self.sent("b"), ["b/1", "b/2", "b/3"])
        both = self.sent("ab")
        self.assertLess(both.index("b/3"), both.index("a/2"))
        self.assertEqual(self.dead(), ["a/1"])

        self.link.tell("set refusetopic=a/:0x87")
        self.put("a/4", "a/5")
        rig.wait_for(lambda: self.dead() == ["a/1", "a/4", "a/5"],
                     "three are dead")
        self.assertEqual(self.sent("a")[5:], ["a/4"] * 3 + ["a/5"] * 3)

        self.link.tell("set refusetopic=")
        ids = self.own.rows("SELECT seq, id FROM outbox_held ORDER BY seq")
        subprocess.run([rig.COMMAND, "dead", "requeue", self.db_path, "--all"],
                       check=True, capture_output=True)
        self.put("a/6")
        rig.wait_for(lambda: self.sent("a")[-1:] == ["a/6"], "all of a went")
        # one whose fate could not be recorded, as while a put commits, is
        # sent again
        self.assertEqual([topic for topic, _ in itertools.groupby(
            self.sent("a")[11:])], ["a/1", "a/4", "a/5", "a/6"])
        self.assertEqual(len(ids), 3)
        for _, message_id in ids:
            self.assertGreaterEqual(
                self.link.log().count(str_of(message_id)), 4)
        rig.wait_for(lambda: self.own.value(
            "SELECT sum(delivered) FROM outbox_cursor") == 9, "all are booked")
        self.assert_sound(self.own)


def str_of(message_id):
    text = message_id.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20],
                     text[20:]))


class Forbidden(rig.Case):
    def test_forbidden_topic_slows_no_other_and_costs_nothing(self):
        acl = os.path.join(self.folder, "acl")
        with open(acl, "w", encoding="utf-8") as file:
            file.write("topic readwrite good/#\n")
        broker = self.broker(lines=(f"acl_file {acl}",))
        relay = self.gateway(broker.uri())
        own = self.database()
        own.run("BEGIN IMMEDIATE")
        own.put("bad", "forbidden/t")
        for n in range(100):
            own.put(str(n), "good/t")
        own.run("COMMIT")
        rig.wait_for(lambda: own.value(
            "SELECT delivered FROM outbox_cursor WHERE lane = 0") == 100,
            "the good ones are acknowledged")
        # that is after 1.5 s at the earliest
        (state, attempts, error), = own.rows(
            "SELECT state, attempts, error FROM outbox_held")
        self.assertEqual(state, "retry")
        self.assertLess(attempts, 5)
        self.assertIn("not authorized (0x87)", error)

        before, start = cpu_s(relay), time.monotonic()
        rig.wait_for(lambda: time.monotonic() - start >= CPU_SPAN_S, "a while")
        spent = cpu_s(relay) - before
        self.assertLess(spent, CPU_SHARE * (time.monotonic() - start))
        self.assert_sound(own)


def cpu_s(process):
    """What it used so far, in user and kernel mode."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    rig.need("mosquitto", "stdbuf")
    rig.main()
