# SPDX-License-Identifier: MIT
"""Claims by plain SQL: the statements of src/FORMAT.md, as they stand there,
from eight processes at once."""
import hashlib
import multiprocessing
import os
import re
import sqlite3
import subprocess
import time

import rig

FORMAT = os.path.join(rig.HERE, "..", "..", "src", "FORMAT.md")
PROCESSES = 8
ROUNDS = 100 if rig.FULL else 25
FORK = multiprocessing.get_context("fork")


def recipe():
    """The statements: claim, finish, what was left."""
    with open(FORMAT, encoding="utf-8") as file:
        part = file.read().split("### Claims by plain SQL\n")[1]
    part = part.split("\n### ")[0]
    claim, finish, left = re.findall(r"^```sql\n(.*?)^```$", part,
                                     re.DOTALL | re.MULTILINE)
    return claim, finish, left


CLAIM, FINISH, LEFT = recipe()


class Desk:
    """Takes requests on a connection of its own."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)

    def claim(self, request, content):
        row = self.db.execute(CLAIM, {
            "consumer": "http", "source": "", "id": request,
            "content_hash": hashlib.sha256(content.encode()).digest(),
            "now_ms": int(time.time() * 1000)}).fetchall()
        if not row:
            return "conflict", None, None
        arrival, seen, state, result = row[0]
        kind = "new" if seen == 1 else state
        return kind, arrival, result

    def finish(self, arrival, result):
        return self.db.execute(FINISH, {
            "arrival": arrival, "result": result,
            "now_ms": int(time.time() * 1000)}).rowcount

    def serve(self, request, content="open"):
        """What it was, and the answer."""
        self.db.execute("BEGIN IMMEDIATE")
        kind, arrival, result = self.claim(request, content)
        if kind == "new":
            self.db.execute("INSERT INTO effect VALUES (?)", (request,))
            result = f"did {request}"
            assert self.finish(arrival, result) == 1
        self.db.execute("ROLLBACK" if kind == "conflict" else "COMMIT")
        return kind, result


def race(path, start, answers):
    desk = Desk(path)
    for i in range(ROUNDS):
        start.wait()
        try:
            answers.put((i, *desk.serve(f"r{i}")))
        except (sqlite3.Error, AssertionError) as error:
            answers.put((i, "error", repr(error)))
    desk.db.close()


class Claims(rig.Case):
    def setUp(self):
        super().setUp()
        if not rig.COMMAND:
            self.skipTest("without the command")
        subprocess.run([rig.COMMAND, "init", self.db_path], check=True,
                       timeout=rig.WAIT_S)
        self.own = self.database()
        self.own.run("CREATE TABLE effect(request)")

    def desk(self):
        desk = Desk(self.db_path)
        self.addCleanup(desk.db.close)
        return desk

    def left(self):
        return [row[2] for row in self.own.connection.execute(
            LEFT, {"consumer": "http"})]

    def test_eight_processes_at_once_have_one_effect(self):
        start = FORK.Barrier(PROCESSES)
        answers = FORK.Queue()
        racers = [FORK.Process(target=race,
                               args=(self.db_path, start, answers))
                  for _ in range(PROCESSES)]
        for racer in racers:
            racer.start()
        said = [answers.get(timeout=rig.WAIT_S)
                for _ in range(PROCESSES * ROUNDS)]
        for racer in racers:
            racer.join(rig.WAIT_S)
        for i in range(ROUNDS):
            kinds = sorted(kind for of, kind, _ in said if of == i)
            self.assertEqual(kinds, ["done"] * (PROCESSES - 1) + ["new"])
            self.assertEqual({text for of, _, text in said if of == i},
                             {f"did r{i}"})
        self.assertEqual(
            self.own.rows("SELECT count(*), count(DISTINCT request)"
                          " FROM effect"), [(ROUNDS, ROUNDS)])

    def test_the_same_id_with_other_content_is_a_conflict(self):
        desk = self.desk()
        self.assertEqual(desk.serve("a"), ("new", "did a"))
        self.assertEqual(desk.serve("a", "shut"), ("conflict", None))
        self.assertEqual(desk.serve("a"), ("done", "did a"))
        self.assertEqual(self.own.value("SELECT count(*) FROM effect"), 1)

    def test_what_was_claimed_and_not_finished_is_found(self):
        self.assertEqual(self.left(), [])
        for request in "ab":  # each commits by itself
            self.desk().claim(request, "open")
        self.assertEqual(self.left(), ["a", "b"])
        kind, arrival, _ = self.desk().claim("a", "open")
        self.assertEqual(kind, "claimed")
        self.assertEqual(self.desk().finish(arrival, "it was done"), 1)
        self.assertEqual(self.desk().finish(arrival, "twice"), 0)
        self.assertEqual(self.left(), ["b"])
        self.assertEqual(self.desk().serve("a"), ("done", "it was done"))

    def test_rows_are_those_of_the_library(self):
        """tests/unit/test_claim.c expects the same of its own."""
        self.desk().serve("a")
        self.assertEqual(
            self.own.rows(
                "SELECT consumer, source, id, lower(hex(content_hash)), state,"
                " attempts, processed_ms >= received_ms, topic, payload"
                " FROM inbox"),
            [("http", "", "a", "2348f998744212575d85959674f9607a"
              "b26f67708a917157472832386337c904", "done", 1, 1, None, None)])
        listed = subprocess.run(
            [rig.COMMAND, "inbox", "ls", self.db_path], check=True, text=True,
            capture_output=True, timeout=rig.WAIT_S).stdout
        self.assertIn("http", listed)


if __name__ == "__main__":
    rig.main()
