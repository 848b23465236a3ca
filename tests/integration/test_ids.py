# SPDX-License-Identifier: MIT
"""A million ids: of processes that start in the same second, of a child that
was forked when its parent had drawn some, of the library and of the table's
own default.  Where a library puts in its own generator, which draws from the
clock, they would be the same."""
import os
import sqlite3
import subprocess

import proof
import rig

MAKER = os.environ.get("POSTBAG_IDS")
COUNT = 1000000 if rig.FULL or rig.PROVE else 100000


class Ids(rig.Case):
    def draw(self, seconds, makers=2):
        """All that the makers, started together, and their children drew."""
        each = COUNT // makers // 2
        running = [subprocess.Popen([MAKER, str(each), *seconds],
                                    stdout=subprocess.PIPE)
                   for _ in range(makers)]
        ids = []
        for process in running:
            text, _ = process.communicate(timeout=4 * rig.WAIT_S)
            self.assertEqual(process.returncode, 0)
            ids += [text[i:i + 16] for i in range(0, len(text), 16)]
        self.assertEqual(len(ids), each * makers * 2)
        return ids

    def test_ids_of_processes_and_of_a_forked_child_differ(self):
        ids = self.draw(())
        self.assertEqual(len(set(ids)), len(ids))
        # RFC 9562: version 4, variant 10
        self.assertEqual({i[6] >> 4 for i in ids}, {4})
        self.assertEqual({i[8] >> 6 for i in ids}, {2})
        proof.say("F30_library", len(ids))

    def test_generator_that_draws_from_the_clock_is_noticed(self):
        # of four, two have begun in the same second, whenever that ended
        ids = self.draw(("clock",), 4)
        proof.control("F30_library", "from_the_clock",
                      len(ids) - len(set(ids)), len(ids))
        self.assertLess(len(set(ids)), len(ids))

    def test_ids_of_the_tables_default_differ(self):
        """Of two processes that put in plain SQL, and of all in one."""
        self.assertEqual(self.gateway("tcp://127.0.0.1:1").end(), 0)
        put = (f"INSERT INTO outbox(topic, payload) WITH RECURSIVE n(i) AS"
               f" (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
               f" {COUNT // 20}) SELECT 't', 'x' FROM n;")
        shells = [subprocess.Popen(["sqlite3", "-bail", "-cmd",
                                    ".timeout 60000", self.db_path, put])
                  for _ in range(2)]
        for shell in shells:
            self.assertEqual(shell.wait(4 * rig.WAIT_S), 0)
        db = sqlite3.connect(self.db_path)
        count, distinct = db.execute(
            "SELECT count(*), count(DISTINCT id) FROM outbox").fetchone()
        db.close()
        self.assertEqual((count, distinct), (COUNT // 10, COUNT // 10))
        proof.say("F30_default", count)


if __name__ == "__main__":
    rig.need("sqlite3")
    rig.main()
