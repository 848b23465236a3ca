# SPDX-License-Identifier: MIT
"""What every consumer must stand, whatever it is written in.

A class of Proof and rig.Case says how its consumer is started and what its
database holds; the cases are here.  The messages come from a real relay and
mosquitto.  Each control does the same to a consumer that was spoilt on
purpose, and must find out.
"""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys

import rig

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 6 if rig.FULL else 3
RELAY_KILLS = 3  # more in a row at one message, and the relay suspects it
KEYS = 4
GRACE_S = 0.5  # to acknowledge early, for who should not
PIPE_BYTES = 4096
SOURCE = "/gateways/gw1"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def python_with(module, package):
    """A Python that has what Debian packages for its own."""
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([python, "-c", f"import {module}"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0:
                return python
    return skip(f"not installed: {package}")


def spoil(folder, changes):
    """Each change is (file, what stands there once, what it becomes)."""
    for name, old, new in changes:
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if text.count(old) != 1:
            raise ValueError(f"{name}: not once: {old}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))


class FullPipe:
    """Whoever prints to it stands still in the middle of that: after its
    commit, and before its PUBACK."""

    def __init__(self, case):
        self.path = os.path.join(case.folder, "full.pipe")
        if not os.path.exists(self.path):
            os.mkfifo(self.path)
        self.fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.write(self.fd, b" " * PIPE_BYTES)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        os.close(self.fd)


class Proof:
    # ---- what the classes say -----------------------------------------------

    FILES = ()        # what a user copies, relative to this folder
    OWN_MARKER = ()   # changes: asks with SELECT, marks in a transaction apart
    EARLY_ACK = ()    # changes: acknowledges before the commit

    def command(self, folder):
        """The consumer in that folder, up to HOST."""
        raise NotImplementedError

    def place(self):
        """Its last word: where its database is."""
        raise NotImplementedError

    def sql(self, text):
        """Runs a statement in its database; the lines it returns."""
        raise NotImplementedError

    def locked(self):
        """A context in which it cannot commit."""
        raise NotImplementedError

    FORBID = ""       # SQL: an effect with the payload 'poison' fails
    PERMIT = ""       # SQL: no more
    TEXT = ""         # SQL: reading's payload as text

    # ---- parts --------------------------------------------------------------

    def setUp(self):
        super().setUp()
        self.server = self.broker()
        self.copy = os.path.join(self.folder, "copy")
        os.mkdir(self.copy)
        for name in self.FILES:
            shutil.copy(os.path.join(HERE, name), self.copy)
        self.put_so_far = 0
        self.versions = {}

    def start(self, stdout=None):
        into = ["sh", "-c", 'exec "$@" >"$0"', stdout] if stdout else []
        return self.keep(rig.Process(self.folder, "consumer", [
            *into, *self.command(self.copy), "127.0.0.1",
            str(self.server.port), "consumer", "gw/#", self.place()]))

    def introduce(self):
        """From now on the broker keeps messages for it."""
        self.start_subscribed().kill()

    def start_subscribed(self):
        before = self.subacks()
        consumer = self.start()
        rig.wait_for(lambda: self.subacks() > before
                     or not consumer.is_running(), "SUBACK")
        self.assertTrue(consumer.is_running(), consumer.err())
        return consumer

    def subacks(self):
        return self.server.err().count("Sending SUBACK to consumer\n")

    def relay(self, *words):
        return self.gateway(self.server.uri(), f"source={SOURCE}",
                            "keep_s=3600", *words)

    def put(self, own, count):
        own.run("BEGIN IMMEDIATE")
        for _ in range(count):
            self.put_so_far += 1
            key = f"k{self.put_so_far % KEYS}"
            version = self.versions[key] = self.versions.get(key, 0) + 1
            self.put_one(own, str(self.put_so_far), key, version)
        own.run("COMMIT")

    @staticmethod
    def put_one(own, payload, key=None, version=None, **columns):
        columns = {"topic": "gw/reading", "payload": payload, "key": key,
                   "key_version": version, **columns}
        own.run(f"INSERT INTO outbox({','.join(columns)})"
                f" VALUES ({','.join('?' * len(columns))})",
                *columns.values())

    def effects(self):
        return self.sql(f"SELECT {self.TEXT} FROM reading")

    def wait_effect(self, payload):
        rig.wait_for(lambda: payload in self.effects(), f"effect {payload}")

    def told(self, start=""):
        """What all consumers so far said beside their output."""
        with open(os.path.join(self.folder, "consumer.err"),
                  encoding="utf-8") as file:
            return [line for line in file.read().splitlines()
                    if line.startswith(start)]

    def pubacks(self):
        return self.server.err().count("Received PUBACK from consumer ")

    def check_effects(self, own):
        """All that was put, each once, when what comes last is done."""
        own.wait_settled()
        self.put_one(own, "last")
        consumer = self.start_subscribed()
        self.wait_effect("last")
        consumer.kill()
        found = self.effects()
        expected = [str(n + 1) for n in range(self.put_so_far)] + ["last"]
        lost = sorted(set(expected) - set(found))
        twice = sorted(p for p in set(found) if found.count(p) > 1)
        self.assertEqual((lost, twice), ([], []), "lost, twice")
        self.assertEqual(sorted(found), sorted(expected))

    # ---- duplicates ---------------------------------------------------------

    def kill_between_commit_and_puback(self):
        before = len(self.effects())
        with FullPipe(self) as pipe:
            consumer = self.start(stdout=pipe)
            rig.wait_for(lambda: len(self.effects()) > before, "an effect")
            consumer.kill()

    def kill_somewhere(self, fewest):
        consumer = self.start()
        rig.wait_for(lambda: len(self.effects()) >= fewest, "effects")
        consumer.kill()

    def disturb(self, rounds):
        """Kills of both ends.  A relay that was killed before it saved its
        cursor sends again what was acknowledged."""
        self.introduce()
        unsaved = ("ack_batch=1000", "ack_delay_ms=60000")
        relay = self.relay(*unsaved)
        own = self.database()
        for round_ in range(rounds):
            acked = self.server.err().count("Sending PUBACK to gateway ")
            self.put(own, 10)
            self.server.wait_err("Sending PUBACK to gateway ",
                                 acked + self.random.randint(1, 10))
            if round_ < RELAY_KILLS:
                relay.kill()
                relay = self.relay(*unsaved)
            self.kill_between_commit_and_puback()
            self.kill_somewhere(self.random.randrange(self.put_so_far))
        self.assertEqual(relay.end(), 0)
        self.relay("ack_delay_ms=50")
        own.wait_settled()
        self.sent_again = self.server.err().count(
            "Received PUBLISH from gateway ") - self.put_so_far
        return own

    def replay_all(self, own):
        own.wait_settled()
        subprocess.run([rig.COMMAND, "replay", self.db_path, "--from", "1"],
                       check=True, stdout=subprocess.DEVNULL)
        rig.wait_for(lambda: own.counts()["held"] == 0, "all is replayed")

    def once(self, rounds):
        own = self.disturb(rounds)
        self.replay_all(own)
        self.check_effects(own)

    def test_what_comes_again_has_one_effect(self):
        self.once(ROUNDS)
        again = self.told("duplicate ")
        self.assertEqual(self.told(), again)
        # by the relay's crashes, by ours (at least), and all by the replay
        self.assertGreater(self.sent_again, 0)
        self.assertGreaterEqual(
            len(again), self.sent_again + ROUNDS + self.put_so_far)
        print(f"  {self.put_so_far} messages; again: {self.sent_again} by the"
              f" relay, {len(again)} in all", flush=True)

    def test_control_marker_of_its_own_is_found_out(self):
        spoil(self.copy, self.OWN_MARKER)
        with self.assertRaisesRegex(AssertionError, "lost, twice"):
            self.once(1)

    # ---- commit, then PUBACK ------------------------------------------------

    def killed_while_it_cannot_commit(self, patience):
        self.introduce()
        self.relay("ack_delay_ms=50")
        own = self.database()
        self.put(own, 5)
        own.wait_settled()
        acked = self.pubacks()
        sent = self.server.err().count("Sending PUBLISH to consumer ")
        with self.locked():
            consumer = self.start()
            self.server.wait_err("Sending PUBLISH to consumer ", sent + 5)
            with contextlib.suppress(AssertionError):
                # a server may still commit the first for a client that is gone
                rig.wait_for(lambda: self.pubacks() >= acked + 5, "PUBACKs",
                             patience)
            consumer.kill()
        self.check_effects(own)

    def test_killed_before_its_commit_it_gets_it_again(self):
        self.killed_while_it_cannot_commit(GRACE_S)

    def test_control_early_puback_is_found_out(self):
        spoil(self.copy, self.EARLY_ACK)
        with self.assertRaisesRegex(AssertionError, "lost, twice"):
            self.killed_while_it_cannot_commit(rig.WAIT_S)

    # ---- what fails ---------------------------------------------------------

    def fails_once(self):
        self.introduce()
        self.relay("ack_delay_ms=50")
        own = self.database()
        self.sql(self.FORBID)
        self.put_one(own, "poison")
        own.wait_settled()
        consumer = self.start()
        rig.wait_for(lambda: not consumer.is_running()
                     or self.pubacks(), "its end, or a PUBACK")
        consumer.kill()
        self.sql(self.PERMIT)
        self.put_one(own, "last")
        self.start()
        self.wait_effect("last")
        self.assertEqual(self.effects(), ["poison", "last"])

    def test_effect_that_fails_is_not_acknowledged(self):
        self.fails_once()

    def test_refused_subscription_ends_it(self):
        self.server = self.fake_broker("subrefuse=0x87")
        consumer = self.start()
        rig.wait_for(lambda: not consumer.is_running(), "its end")
        self.assertNotEqual(consumer.popen.returncode, 0)

    def test_what_is_none_of_ours_is_told_and_passed(self):
        consumer = self.start_subscribed()
        for words in ((), ("id", "1"), ("source", "s"),
                      ("id", "1", "source", "s", "keyversion", "1e3")):
            properties = [word for pair in zip(words[::2], words[1::2])
                          for word in ("-D", "publish", "user-property",
                                       *pair)]
            self.publish(self.server, "gw/x", "x", *properties)
        self.publish(self.server, "gw/x", "ours", *(
            "-D publish user-property id 2 "
            "-D publish user-property source s").split())
        self.wait_effect("ours")
        self.assertEqual(len(self.told("malformed gw/x: ")), 4)
        self.assertTrue(consumer.is_running())
        self.assertEqual(self.effects(), ["ours"])

    # ---- what it tells ------------------------------------------------------

    def test_versions_that_do_not_follow_are_told(self):
        self.start_subscribed()
        self.relay()
        own = self.database()
        for version in (7, 8, 10, 10, 9, None, 11, 13):
            self.put_one(own, f"a{version}", "a", version)
        self.put_one(own, "b-2", "b", -2)
        self.put_one(own, "b-1", "b", -1)
        self.put_one(own, "none")
        self.put_one(own, "unversioned", "c")
        self.put_one(own, "first", "c", 1)
        self.wait_effect("first")
        # the relay drops a reading that a newer one replaces
        own.run("BEGIN IMMEDIATE")
        for version in (2, 3):
            self.put_one(own, f"c{version}", "c", version, coalesce="c")
        own.run("COMMIT")
        self.wait_effect("c3")
        self.put_one(own, "a14", "a", 14)
        self.wait_effect("a14")
        found = [line.split(f" {SOURCE} ") for line in self.told()]
        self.assertEqual([(what, said) for what, said in found
                          if said.startswith("a: ")], [
            ("gap", "a: after 8 came 10"), ("repeat", "a: after 10 came 10"),
            ("back", "a: after 10 came 9"),
            ("unversioned", "a: after 10 came none"),
            ("gap", "a: after 11 came 13")])
        self.assertEqual([said for said in found if said[1][:3] != "a: "],
                         [["gap", "c: after 1 came 3"]])

    def test_latency_is_told_where_clocks_can_say(self):
        consumer = self.start_subscribed()
        self.relay()
        own = self.database()
        self.put_one(own, "plain")
        for at in ("2099-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "noon"):
            self.put_one(own, at, headers=f'{{"time":"{at}"}}')
        self.put_one(own, "unset clock", created_ms=5000)
        self.put_one(own, "last")
        self.wait_effect("last")
        self.sql("DELETE FROM seen")
        self.replay_all(own)
        consumer.wait_out("effect ", 12)
        shown = [re.fullmatch(r"effect [-0-9a-f]{36} (?:([0-9.]+) ms)?", line)
                 for line in consumer.out().splitlines()]
        self.assertEqual([bool(line[1]) for line in shown],
                         [True, False, False, False, False, True]
                         + [False] * 6)
        self.assertLess(float(shown[0][1]), rig.WAIT_S * 1000)
        print(f"  publish to effect: {shown[0][1]} ms", flush=True)
