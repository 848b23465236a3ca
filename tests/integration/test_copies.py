# SPDX-License-Identifier: MIT
"""Copies of the database take its place, or are used beside it."""
import os
import shutil
import subprocess

import rig

NEW = "its messages are a new stream from now on"


class Copies(rig.Case):
    def setUp(self):
        super().setUp()
        self.mosquitto = self.broker()
        self.sub = self.subscriber(self.mosquitto)
        self.lives = 0

    def live(self, payloads, end="end"):
        """A relay that sends these and all that waits; what it said."""
        self.lives += 1
        relay = self.gateway(self.mosquitto.uri(), "ack_delay_ms=50",
                             "keep_s=3600", name=f"relay{self.lives}")
        own = self.database()
        for payload in payloads:
            own.put(payload)
        own.wait_settled()
        own.connection.close()
        if end == "kill":
            relay.kill()
        else:
            self.assertEqual(relay.end(), 0)
        return relay.err()

    def copy(self, path):
        """With all that is in the WAL."""
        own = self.database()
        own.run("VACUUM INTO ?", path)
        own.connection.close()

    def put_back(self, path):
        for ending in ("-wal", "-shm"):
            if os.path.exists(self.db_path + ending):
                os.remove(self.db_path + ending)
        shutil.copyfile(path, self.db_path)

    def check(self, *payloads):
        """All arrived, and no number was given to two messages."""
        for payload in payloads:
            self.sub.wait_payload(payload)
        numbers = {}
        for message in self.sub.messages():
            other = numbers.setdefault(message.property("sequence"),
                                       message.id)
            self.assertEqual(other, message.id)

    def test_older_copy_put_back_is_a_new_stream(self):
        copy = os.path.join(self.folder, "copy.db")
        self.live(["a1", "a2"])
        self.copy(copy)
        self.assertNotIn(NEW, self.live(["b1", "b2", "b3"]))
        self.put_back(copy)
        said = self.live(["c1", "c2"])
        self.assertIn("is older than what its relay last saw", said)
        self.assertIn(NEW, said)
        self.assertNotIn(NEW, self.live(["c3"]))
        self.check("a1", "a2", "b1", "b2", "b3", "c1", "c2", "c3")

    def test_older_copy_without_a_witness_loses_nothing(self):
        copy = os.path.join(self.folder, "copy.db")
        self.live(["a1", "a2"])
        own = self.database()
        own.put("w")  # waits in the copy
        own.connection.close()
        self.copy(copy)
        self.live(["b1"])
        self.put_back(copy)
        os.remove(self.db_path + "-witness")
        self.live(["c1", "c2"])
        for payload in ("a1", "a2", "w", "b1", "c1", "c2"):
            self.sub.wait_payload(payload)
        self.assertEqual(len(set(self.sub.ids())), 6)

    def test_dump_beside_it_is_a_new_stream(self):
        self.live(["a1", "a2"])
        copy = os.path.join(self.folder, "copy.db")
        dump = subprocess.run(["sqlite3", self.db_path, ".dump"], check=True,
                              capture_output=True).stdout
        subprocess.run(["sqlite3", copy], input=dump, check=True)
        self.assertNotIn(NEW, self.live(["b1"]))
        self.db_path = copy
        self.assertIn("is a copy of another file", self.live(["c1"]))
        self.check("a1", "a2", "b1", "c1")

    def test_dump_in_its_place_goes_on(self):
        self.live(["a1", "a2"])
        copy = os.path.join(self.folder, "copy.db")
        dump = subprocess.run(["sqlite3", self.db_path, ".dump"], check=True,
                              capture_output=True).stdout
        subprocess.run(["sqlite3", copy], input=dump, check=True)
        os.replace(copy, self.db_path)
        self.assertNotIn(NEW, self.live(["b1"]))
        self.check("a1", "a2", "b1")

    def test_renamed_and_killed_it_is_the_same(self):
        self.live(["a1"], end="kill")
        self.assertNotIn(NEW, self.live(["a2"], end="kill"))
        path = os.path.join(self.folder, "other.db")
        for ending in ("", "-wal", "-shm"):
            if os.path.exists(self.db_path + ending):
                os.rename(self.db_path + ending, path + ending)
        self.db_path = path
        self.assertNotIn(NEW, self.live(["a3"]))
        self.check("a1", "a2", "a3")


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "sqlite3", "stdbuf")
    rig.main()
