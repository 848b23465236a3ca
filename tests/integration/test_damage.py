# SPDX-License-Identifier: MIT
"""The database of a firmware is damaged, before it starts and while it runs:
nothing crashes, what can be read is delivered, the rest is salvaged."""
import json
import os
import subprocess

import proof
import rig

COMMAND = os.environ.get("POSTBAG_COMMAND", "")
COUNT = 900


class Damage(rig.Case):
    def setUp(self):
        super().setUp()
        self.mosquitto = self.broker()
        self.sub = self.subscriber(self.mosquitto)

    def verify(self):
        """It is damaged: that is the test."""

    def fill(self):
        """COUNT messages that wait, all in the one file; their ids."""
        self.gateway(self.mosquitto.uri(), name="first").end()
        own = self.database()
        own.run("CREATE TABLE IF NOT EXISTS memo(n INTEGER PRIMARY KEY, v)")
        own.put_many(0, COUNT, 60)
        own.run("INSERT INTO memo SELECT seq, hex(id) FROM outbox")
        ids = {seq: value for seq, value in own.rows(
            "SELECT seq, lower(hex(id)) FROM outbox ORDER BY seq")}
        own.run("PRAGMA wal_checkpoint(TRUNCATE)")
        own.connection.close()
        return ids

    def leaf(self, row):
        """Number and first and last row of the page that has a row."""
        own = self.database()
        leaf = own.rows(
            "SELECT pageno, upto - ncell + 1, upto FROM (SELECT *, sum(ncell)"
            " OVER (ORDER BY path) AS upto FROM dbstat WHERE name = 'outbox'"
            " AND pagetype = 'leaf') WHERE ? BETWEEN upto - ncell + 1 AND upto",
            row)[0]
        own.connection.close()
        return leaf

    def spoil(self, page):
        with open(self.db_path, "r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(bytes(4096))

    def postbag(self, *words):
        done = subprocess.run([COMMAND, *words], capture_output=True,
                              text=True, check=False)
        self.assertIn(done.returncode, (0, 1, 6), done.stderr)
        return done

    def salvage(self):
        """What it says; the new database takes the place of the old one."""
        new = os.path.join(self.folder, "new.db")
        done = self.postbag("doctor", self.db_path, "--salvage", new, "-o",
                            "json")
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(self.postbag("doctor", new).returncode, 0)
        self.db_path = new
        return json.loads(done.stdout)

    def ids(self):
        return {message.id.replace("-", "") for message in self.sub.messages()}

    def deliver(self, ids, name):
        """A firmware on what was salvaged sends all of these."""
        relay = self.gateway(self.mosquitto.uri(), name=name)
        rig.wait_for(lambda: ids <= self.ids(), "the salvaged messages")
        self.assertEqual(relay.end(), 0)

    def test_damaged_before_the_start(self):
        ids = self.fill()
        page, first, last = self.leaf(700)
        self.spoil(page)
        self.assertEqual(self.postbag("verify", self.db_path).returncode, 6)
        self.assertEqual(self.postbag("doctor", self.db_path).returncode, 6)
        relay = self.gateway(self.mosquitto.uri())
        relay.wait_err("malformed: run postbag doctor")
        before = {ids[seq] for seq in range(1, first)}
        rig.wait_for(lambda: before <= self.ids(), "what stands before")
        rig.wait_for(lambda: self.live_state().get("stalled") == "corrupt",
                     "the state file to say so")
        self.assertTrue(relay.is_running())
        self.assertEqual(relay.end(), 0)
        said = self.salvage()
        self.assertIn({"lost": "outbox", "from": first, "to": last},
                      said["found"])
        rest = {ids[seq] for seq in ids if not first <= seq <= last}
        self.deliver(rest, "second")
        self.assertEqual(self.ids(), rest)
        self.assertEqual(self.database().value("SELECT count(*) FROM memo"),
                         COUNT)
        proof.say("F19_real_start", 1)

    def test_damaged_while_it_runs(self):
        ids = self.fill()
        relay = self.gateway(self.mosquitto.uri(), "work=20000", "gap_us=2000",
                             "tolerate=1", "bulk_rate=100")
        relay.wait_out("committed 20")
        page, first, last = self.leaf(500)
        self.spoil(page)
        relay.wait_err("malformed")
        self.assertTrue(relay.is_running())
        committed = relay.out().count("committed ")
        relay.wait_out("committed ", committed + 20)  # who does not read it
        self.assertEqual(relay.end(), 0)
        self.salvage()
        self.deliver({ids[seq] for seq in ids if not first <= seq <= last},
                     "second")
        proof.say("F19_real_run", 1)

    def test_cut_short(self):
        ids = self.fill()
        with open(self.db_path, "r+b") as file:
            file.truncate(os.path.getsize(self.db_path) * 2 // 3)
        done = subprocess.run(
            [rig.GATEWAY, self.db_path, "uri=" + self.mosquitto.uri(),
             "client_id=refused"], capture_output=True, text=True, check=False,
            timeout=rig.WAIT_S)
        self.assertGreater(done.returncode, 0, done.stderr)
        self.salvage()
        self.deliver(set(), "second")
        self.assertTrue(self.ids() <= set(ids.values()))
        proof.say("F19_real_short", 1)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
