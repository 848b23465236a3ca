# SPDX-License-Identifier: MIT
"""Commands that are pulled: by a firmware that is killed again and again, and
by plain SQL, with the statements of src/FORMAT.md as they stand there."""
import collections
import multiprocessing
import os
import re
import sqlite3
import subprocess
import time

import rig
import test_commands_kill

FORMAT = os.path.join(rig.HERE, "..", "..", "src", "FORMAT.md")
FORK = multiprocessing.get_context("fork")
PULLERS = 4
KEYS = 5


class Firmware(test_commands_kill.Commands):
    COMMANDS = 1000 if rig.FULL else 60
    KILLS = 50 if rig.FULL else 8
    COPIES = 2
    TAKES = "pull"
    POINTS = test_commands_kill.HANDLING

    def test_killed_puller_has_each_effect_once(self):
        self.kill_and_compare()


def recipe():
    """The statements: next, done, put off, dead."""
    with open(FORMAT, encoding="utf-8") as file:
        part = file.read().split("### Commands by plain SQL\n")[1]
    part = part.split("\n### ")[0]
    following, done, put_off, dead = re.findall(
        r"^```sql\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    return following, done, put_off, dead


NEXT, DONE, PUT_OFF, DEAD = recipe()


def boot():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return bytes.fromhex(file.read().strip().replace("-", ""))


def moment(boot_id, later_ms):
    mono_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {"boot": boot_id, "mono_ms": int(mono_s * 1000) + later_ms,
            "now_ms": int(time.time() * 1000) + later_ms}


class Puller:
    """Pulls on a connection of its own; its clocks can be moved."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.boot = boot()
        self.later_ms = 0

    def now(self):
        return moment(self.boot, self.later_ms)

    def change(self, sql, arrival, **more):
        return self.db.execute(
            sql, {"arrival": arrival, **self.now(), **more}).rowcount

    def next(self):
        """Those that came too late are dead then."""
        while True:
            row = self.db.execute(
                NEXT, {"consumer": "app", **self.now()}).fetchone()
            if row is None or not row["expired"]:
                return row
            self.change(DEAD, row["arrival"], tried=0,
                        error="expired: it came too late")

    def act(self, row):
        """The row was looked at before; 0: somebody else was faster."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO effect VALUES (?)", (row["id"],))
        changed = self.change(DONE, row["arrival"])
        self.db.execute("COMMIT" if changed else "ROLLBACK")
        return changed


def pull_for_ever(path):
    puller = Puller(path)
    while True:
        row = puller.next()
        if row is not None:
            puller.act(row)


class PlainSql(rig.Case):
    COMMANDS = 2000 if rig.FULL else 300
    KILLS = 100 if rig.FULL else 20

    def setUp(self):
        super().setUp()
        if not rig.COMMAND:
            self.skipTest("without the command")
        subprocess.run([rig.COMMAND, "init", self.db_path], check=True,
                       timeout=rig.WAIT_S)
        self.own = self.database()
        self.own.run("CREATE TABLE effect(command TEXT)")

    def puller(self):
        puller = Puller(self.db_path)
        self.addCleanup(puller.db.close)
        return puller

    def accept(self, name, key=None, expires_ms=None):
        """As the receiver does."""
        self.own.run(
            "INSERT INTO inbox(consumer, id, content_hash, topic, payload,"
            " content_type, key, expires_ms, headers, received_ms, boot,"
            " mono_ms) VALUES ('app', ?, zeroblob(32), 'gw/cmd', 'go', 'text',"
            " ?, ?, '{}', ?, ?, ?)", name, key, expires_ms, self.clock["now_ms"],
            self.clock["boot"], self.clock["mono_ms"])

    @property
    def clock(self):
        return moment(boot(), 0)

    def names(self):
        return [name for name, in self.own.rows(
            "SELECT command FROM effect ORDER BY rowid")]

    def inbox(self, columns):
        return self.own.rows(f"SELECT {columns} FROM inbox ORDER BY arrival")

    def test_pullers_that_are_killed_have_one_effect_in_order(self):
        """Several, and a firmware that pulls with the library beside them."""
        self.own.run("BEGIN")
        for i in range(self.COMMANDS):
            self.accept(f"c{i}", f"k{i % KEYS}")
        self.own.run("COMMIT")
        self.gateway(f"tcp://127.0.0.1:{rig.free_port()}", "pull=none")
        pullers = [self.start() for _ in range(PULLERS)]
        left = "SELECT count(*) FROM inbox WHERE state = 'due'"
        for kill in range(1, self.KILLS + 1):
            reached = self.COMMANDS * (self.KILLS - kill) // self.KILLS
            rig.wait_for(lambda: self.own.value(left) <= reached,
                         "they get on")
            at = self.random.randrange(PULLERS)
            pullers[at].kill()
            pullers[at].join(rig.WAIT_S)
            pullers[at] = self.start()
        rig.wait_for(lambda: self.own.value(left) == 0, "all are done")
        names = self.names()
        self.assertEqual(collections.Counter(names), collections.Counter(
            f"c{i}" for i in range(self.COMMANDS)))
        for key in range(KEYS):
            of_key = [int(name[1:]) for name in names
                      if int(name[1:]) % KEYS == key]
            self.assertEqual(of_key, sorted(of_key))

    def start(self):
        process = FORK.Process(target=pull_for_ever, args=(self.db_path,))
        process.start()
        self.addCleanup(process.kill)
        return process

    def test_rows_are_those_of_the_library(self):
        """tests/unit/test_pull.c and its like expect the same of theirs."""
        puller = self.puller()
        self.accept("1")
        self.assertEqual(puller.act(puller.next()), 1)
        self.assertEqual(
            self.inbox("state, attempts, processed_ms >= received_ms,"
                       " payload, content_type, headers, error"),
            [("done", 1, 1, None, None, None, None)])
        self.assertEqual(self.inbox("boot"), [(boot(),)])
        self.assertIsNone(puller.next())

    def test_only_the_first_of_two_is_done(self):
        puller, other = self.puller(), self.puller()
        self.accept("1")
        row = other.next()
        self.assertEqual(puller.act(puller.next()), 1)
        self.assertEqual(other.act(row), 0)
        self.assertEqual(puller.change(PUT_OFF, row["arrival"], delay_ms=0,
                                       error="late"), 0)
        self.assertEqual(self.names(), ["1"])

    def test_order_of_a_key_is_kept_while_one_waits(self):
        puller = self.puller()
        for name, key in (("1", "k"), ("2", "k"), ("3", None)):
            self.accept(name, key)
        self.assertEqual(puller.change(
            PUT_OFF, puller.next()["arrival"], delay_ms=60000, error="jam"), 1)
        self.assertEqual(self.inbox("state, attempts, error")[0],
                         ("due", 1, "jam"))
        puller.act(puller.next())
        self.assertIsNone(puller.next())
        puller.later_ms = 60000
        puller.act(puller.next())
        puller.act(puller.next())
        self.assertEqual(self.names(), ["3", "1", "2"])

    def test_next_is_found_by_seeks(self):
        plan = " ".join(row[3] for row in self.puller().db.execute(
            f"EXPLAIN QUERY PLAN {NEXT}", {"consumer": "app", **self.clock}))
        self.assertIn("SEARCH i USING INDEX inbox_due", plan)
        self.assertRegex(
            plan, "SEARCH e USING (COVERING )?INDEX inbox_order")

    def test_retry_time_of_another_boot_has_come(self):
        puller = self.puller()
        self.accept("1")
        puller.change(PUT_OFF, puller.next()["arrival"], delay_ms=60000,
                      error="jam")
        puller.boot = bytes(16)
        self.assertEqual(puller.next()["id"], "1")

    def test_dead_ones_let_their_key_go_on(self):
        puller = self.puller()
        self.accept("1", "k")
        self.accept("2", "k", expires_ms=10000)
        self.accept("3", "k", expires_ms=60000)
        puller.change(DEAD, puller.next()["arrival"], tried=1, error="never")
        puller.later_ms = 10000
        self.assertEqual(puller.next()["id"], "3")
        self.assertEqual(
            self.inbox("state, attempts, error LIKE 'expired%', payload,"
                       " processed_ms NOT NULL")[:2],
            [("dead", 1, 0, "go", 1), ("dead", 0, 1, "go", 1)])


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub")
    rig.main()
