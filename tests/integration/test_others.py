# SPDX-License-Identifier: MIT
"""Other processes at the firmware's database: who hold its locks, who read for
long, who open and close it all the time, who copy it, and who take the CPU.

Beside them a firmware commits and relays.  Its transactions wait for their
turn, its messages arrive, and nothing is lost."""
import os
import sqlite3
import subprocess
import sys
import threading
import time

import proof
import rig

COMMITS = 20000 if rig.PROVE else 1000 if rig.FULL else 300
# longest that a lock is held; a firmware waits 5 s for one
HELD_S = 0.2
# the default of option checkpoint_frames
FRAMES = 250


class Others(rig.Case):
    def setUp(self):
        super().setUp()
        self.mosquitto = self.broker()
        self.sub = self.subscriber(self.mosquitto)
        self.over = threading.Event()
        self.threads, self.done, self.failed = [], {}, []
        self.addCleanup(self.end_others)

    def start(self, name, once):
        """once() again and again, on a thread, until all is over."""
        def run():
            self.done[name] = 0
            while not self.over.is_set():
                try:
                    once()
                except Exception as error:  # told by end_others
                    self.failed.append((name, repr(error)))
                    return
                self.done[name] += 1
        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()

    def end_others(self):
        self.over.set()
        for thread in self.threads:
            thread.join(rig.WAIT_S)
            self.assertFalse(thread.is_alive())
        self.threads = []

    def open(self):
        return sqlite3.connect(self.db_path, timeout=rig.WAIT_S,
                               isolation_level=None)

    def work(self, *words):
        """A firmware at work, whose tables are there."""
        firmware = self.gateway(self.mosquitto.uri(), f"work={COMMITS}",
                                "tolerate=1", *words)
        firmware.wait_out("committed ", 5)
        return firmware

    def wait_worked(self, firmware):
        rig.wait_long(lambda: "worked" in firmware.out(), "it has worked",
                      lambda: firmware.out().count("\n"))
        self.assertNotIn("refused", firmware.out())

    def check(self, firmware):
        """All of it has arrived, once; and nothing went wrong elsewhere."""
        self.end_others()
        self.assertEqual(self.failed, [])
        own = self.database()
        self.assertEqual(own.wait_settled()["delivered"], COMMITS)
        rig.wait_for(lambda: len(self.sub.messages()) >= COMMITS, "all arrive")
        self.assertEqual(sorted(int(p) for p in self.sub.payloads()),
                         list(range(1, COMMITS + 1)))
        self.assertEqual(
            {i.replace("-", "") for i in self.sub.ids()},
            {row[0].hex() for row in own.rows("SELECT id FROM state")})
        self.assertEqual(firmware.end(), 0)
        self.assert_sound(own)
        print(" ", ", ".join(f"{n} {name}" for name, n in self.done.items()),
              flush=True)

    # ---- locks --------------------------------------------------------------

    def hold_write_lock(self):
        db = self.open()
        db.execute("BEGIN IMMEDIATE")
        time.sleep(self.random.uniform(0, HELD_S))  # how long it is held
        db.execute(self.random.choice(("COMMIT", "ROLLBACK")))
        db.close()
        time.sleep(self.random.uniform(0, HELD_S / 4))  # how long it is not

    def hold_read_lock(self):
        db = self.open()
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM outbox").fetchall()
        time.sleep(self.random.uniform(0, HELD_S))  # how long it is held
        db.close()

    def lock_exclusively(self):
        db = self.open()
        db.execute("BEGIN EXCLUSIVE")
        time.sleep(self.random.uniform(0, HELD_S / 4))  # how long it is held
        db.execute("ROLLBACK")
        db.close()
        time.sleep(self.random.uniform(0, HELD_S))  # how long it is not

    def test_lock_storm_makes_all_wait_and_nobody_fail(self):
        firmware = self.work("gap_us=300")
        self.start("writers", self.hold_write_lock)
        self.start("readers", self.hold_read_lock)
        self.start("exclusive", self.lock_exclusively)
        self.wait_worked(firmware)
        self.check(firmware)
        # as long as one lock is held nobody commits: the proof that it bit
        self.assertGreater(self.done["writers"], 2)
        proof.say("F18_storm", sum(self.done.values()), (rig.SEED, rig.SEED))

    def test_lock_held_for_longer_than_the_timeout_is_told(self):
        """The control: who would wait for too long is refused."""
        firmware = self.work("gap_us=300")
        db = self.open()
        db.execute("BEGIN IMMEDIATE")
        firmware.wait_out("refused ")
        db.execute("ROLLBACK")
        proof.control("F18_storm", "too_long",
                      firmware.out().count("refused "), 1)
        self.assertIn("EBUSY", firmware.out())
        firmware.wait_out("committed ", firmware.out().count("committed ") + 1)
        self.assertEqual(firmware.end(), 0)

    def test_reader_that_stays_lets_the_wal_grow_and_no_commit_wait(self):
        firmware = self.work("gap_us=300")
        reader = self.open()
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM outbox").fetchall()
        self.wait_worked(firmware)
        own = self.database()
        own.wait_settled()
        grown = os.path.getsize(self.db_path + "-wal")
        # what tells an operator
        rig.wait_for(
            lambda: int(self.live_state().get("wal_frames", 0)) > 2 * FRAMES,
            "the relay says how long the WAL is")
        reader.close()

        def is_reused():
            own.put("x")  # a commit is what makes the relay look
            return int(self.live_state()["wal_frames"]) < 2 * FRAMES
        rig.wait_for(is_reused, "the WAL begins anew when the reader is gone")
        length = os.path.getsize(self.db_path + "-wal")
        for _ in range(2 * FRAMES):
            own.put("x")
        own.wait_settled()
        self.assertEqual(os.path.getsize(self.db_path + "-wal"), length)
        print(f"  the WAL grew to {grown} bytes", flush=True)
        self.assertEqual(firmware.end(), 0)
        proof.say("F18_reader", 1)

    # ---- other programs -----------------------------------------------------

    def shell(self, *commands):
        done = subprocess.run(
            ["sqlite3", "-bail", "-cmd", ".timeout 20000", self.db_path,
             *commands], capture_output=True, text=True, check=False,
            timeout=2 * rig.WAIT_S)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def open_and_close(self):
        self.shell("SELECT count(*) FROM outbox;")

    def python(self):
        done = subprocess.run(
            [sys.executable, "-c", "import sqlite3, sys\n"
             "d = sqlite3.connect(sys.argv[1], timeout=20)\n"
             "d.execute('SELECT count(*) FROM state').fetchall()\n"
             "d.close()\n", self.db_path], check=False, capture_output=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def is_whole(self, path):
        """A copy holds whole transactions: each row of state was put."""
        db = sqlite3.connect(path)
        state, = db.execute("SELECT count(*) FROM state").fetchone()
        put, = db.execute("SELECT ifnull(max(seq), 0) FROM outbox").fetchone()
        sound, = db.execute("PRAGMA integrity_check").fetchone()
        db.close()
        os.remove(path)
        if state != put or sound != "ok":
            raise AssertionError(f"{state} of state, {put} put, {sound}")

    def back_up(self):
        path = os.path.join(self.folder, "backup.db")
        self.shell(f".backup {path}")
        self.is_whole(path)

    def vacuum_into(self):
        path = os.path.join(self.folder, "vacuum.db")
        self.shell(f"VACUUM INTO '{path}'")
        self.is_whole(path)

    def copy(self):
        """cp is no backup, but it must not disturb."""
        path = os.path.join(self.folder, "copied.db")
        subprocess.run(["cp", self.db_path, path], check=True)
        os.remove(path)

    def test_programs_that_open_copy_and_close_it_disturb_nobody(self):
        firmware = self.work("gap_us=1000")
        for name, once in (("shells", self.open_and_close),
                           ("pythons", self.python),
                           ("backups", self.back_up),
                           ("vacuums", self.vacuum_into),
                           ("copies", self.copy)):
            self.start(name, once)
        self.wait_worked(firmware)
        rig.wait_for(lambda: all(self.done.get(name, 0) > 0 or self.failed
                                 for name in ("shells", "pythons", "backups",
                                              "vacuums", "copies")),
                     "each has had its turn")
        self.check(firmware)
        proof.say("F19_others", sum(self.done.values()))

    # ---- the CPU ------------------------------------------------------------

    def spin(self):
        subprocess.run([sys.executable, "-c",
                        "for i in range(3000000): pass"], check=True)

    def test_saturated_cpu_delays_messages_and_blocks_no_commit(self):
        """Two busy processes for each CPU, and firmware that commits back to
        back; its relay is nice.  A commit that does not get SQLite's lock
        within 5 s is refused: none is."""
        firmware = self.work("niceness=19")
        for number in range(2 * (os.cpu_count() or 1)):
            self.start(f"spins ({number})", self.spin)
        self.wait_worked(firmware)
        self.check(firmware)
        proof.say("F28_cpu", COMMITS)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "sqlite3", "stdbuf")
    rig.main()
