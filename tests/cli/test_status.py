# SPDX-License-Identifier: MIT
"""What `status` says of a relay's live state, whatever stands in it.

The file is written here as the relay writes it (src/live.c), and the relay's
lock is held here, too: so each state can be had at once."""
import fcntl
import json
import os
import sqlite3
import struct
import time
import unittest

from harness import CliTest, ERROR, NOT_FOUND

OWNER = """UPDATE outbox_dest SET owner = x'00112233445566778899aabbccddeeff',
    epoch = 7, boot = x'{0}', lease_until = {1} WHERE name = 'main'"""


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip().replace("-", "")


def fnv(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value


class Live(CliTest):
    def setUp(self):
        super().setUp()
        self.init()
        os.mkdir(self.run_dir)
        self.lock = open(self.db + "-relay-main", "wb")
        self.addCleanup(self.lock.close)

    def hold_lock(self):
        """As a relay that lives; a lock of the open file, as the port's."""
        fcntl.fcntl(self.lock, 37,  # F_OFD_SETLK
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))

    def live(self, **fields):
        state = {"boot": boot_id(), "role": "owner", "link": "up",
                 "inbound": "off", "link_attempts": 0, "next_try_ms": 0,
                 "in_flight": 0, "rate_delivered_milli": -1, **fields}
        name = f"{fnv(os.path.realpath(self.db)):016x}-main.state"
        with open(os.path.join(self.run_dir, name), "w",
                  encoding="utf-8") as file:
            file.write("a line without a value\n")
            for key, value in state.items():
                file.write(f"{key}={value}\n")

    def says(self, **fields):
        self.hold_lock()
        self.live(**fields)
        return self.ok("status", self.db, "--run-dir", self.run_dir)

    def test_live_state_of_the_owner_in_this_boot_is_believed(self):
        self.assertIn("up\n", self.says())
        self.assertRegex(self.says(server=3), "link +up, server 3 of the list")
        for fields in ({"boot": "0" * 32}, {"role": "standby"}):
            text = self.says(**fields)
            self.assertRegex(text, "link +unknown .no relay state in ")
            self.assertNotIn("last PUBACK", text)

    def test_live_state_is_told_of_a_damaged_database(self):
        own = sqlite3.connect(self.db)
        page = own.execute("SELECT rootpage FROM sqlite_schema"
                           " WHERE name = 'outbox_cursor'").fetchone()[0]
        own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        own.close()
        with open(self.db, "r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"Z" * 4096)
        self.hold_lock()
        self.live(stalled="corrupt")
        args = ("status", self.db, "--run-dir", self.run_dir)
        result = self.run_cli(*args)
        self.assertEqual(result.returncode, ERROR)
        for line in ("pending +unknown", "relay +running; lease unknown",
                     "STALLED +the database is damaged", "link +up\n"):
            self.assertRegex(result.out, line)
        self.assertIn("malformed: run postbag doctor", result.err)
        report = json.loads(self.run_cli(*args, "-o", "json").stdout)
        self.assertIn("malformed", report["damage"])
        main = report["destinations"][0]
        self.assertEqual((main["relay"], main["link"], main["stalled"],
                          main["pending"], main["lease"]),
                         ("running", "up", "corrupt", None, "unknown"))

    def test_live_link_that_fails_tells_how_often_and_why(self):
        text = self.says(link="down", link_attempts=1, error="no \x1broute")
        self.assertRegex(text, r"link +down, failed once: no \\x1broute")
        self.assertIn("failed 5 times: x",
                      self.says(link="down", link_attempts=5, error="x"))
        self.assertIn("; next try in 0.0 s", self.says(next_try_ms=1))
        self.assertRegex(self.says(
            next_try_ms=int(time.monotonic() * 1000) + 10 ** 9),
            "; next try in [0-9]+ d")

    def test_live_inbound_link_has_its_own_line(self):
        self.assertIn("connected, not subscribed yet; 1 accepted, 2 dup",
                      self.says(inbound="subscribing", accepted=1,
                                duplicates=2))
        self.assertRegex(self.says(inbound="up", nacks=3),
                         "inbound +up; .* 3 refused")
        self.assertNotRegex(self.says(), "(?m)^inbound")

    def test_live_pace_is_what_is_limited(self):
        self.assertIn("priority 0 5/s at most", self.says(bulk_rate=5))
        self.assertIn("priority 0 2.0 KiB/s at most",
                      self.says(bulk_bytes_rate=2048))
        self.assertIn("all lanes 5/s, 2.0 KiB/s at most",
                      self.says(bulk_rate=5, bulk_bytes_rate=2048,
                                pace_all=1))

    def test_live_certificates_that_ended_are_told(self):
        text = self.says(own_certificate_end_s=1000,
                         server_certificate_end_s=1 << 33)
        self.assertRegex(text, "certificate +ours, ends 1970.* .EXPIRED.")
        self.assertRegex(text, "certificate +the broker's, .* .in [0-9]+ d")

    def test_live_reasons_that_nothing_is_sent(self):
        for name in ("locked", "full", "failing", "replaced"):
            self.assertRegex(self.says(stalled=name),
                             "STALLED +nothing is sent: ")
        self.assertNotIn("STALLED", self.says(stalled=""))
        self.assertIn("FULL: new messages wait", self.says(held_full=1))

    def test_live_rates_say_when_it_is_empty(self):
        self.assertIn("nothing waits", self.says())
        self.put("t", "x")
        self.assertIn("time to empty unknown", self.says())
        self.hold_lock()
        for rate, words in ((0, "time to empty unknown"),
                            (1000000, "(empty in|time to empty unknown)")):
            self.assertRegex(self.says(rate_delivered_milli=rate), words)

    def test_live_state_of_a_dead_relay_is_not_believed(self):
        self.live(held_full=1, inbound="up", bulk_rate=4, in_flight=9,
                  own_certificate_end_s=1000, stalled="full", server=2)
        text = self.ok("status", self.db, "--run-dir", self.run_dir)
        self.assertRegex(text, r"link +down .no relay runs.")
        self.assertRegex(text, "; 0 in flight")
        for word in ("FULL", "inbound", "pace", "certificate", "STALLED",
                     "server 2"):
            self.assertNotIn(word, text)

    def test_live_lock_that_cannot_be_read_leaves_it_unknown(self):
        os.unlink(self.db + "-relay-main")
        os.symlink("nowhere", self.db + "-relay-main")
        self.live()
        self.assertEqual(self.status()["relay"], "unknown")

    def test_lease_is_told_by_its_end(self):
        now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
        for until, word in ((now + 60000, "lease valid for "),
                            (now - 60000, "lease expired since ")):
            self.sql(OWNER.format(boot_id(), until))
            self.assertIn(
                word, self.ok("status", self.db, "--run-dir", self.run_dir))
            self.assertIn("lease_left_ms", self.status())
        self.sql(OWNER.format("00", now))
        self.assertIn("lease old boot",
                      self.ok("status", self.db, "--run-dir", self.run_dir))


class Many(CliTest):
    def test_status_of_more_than_16_destinations_says_so(self):
        self.init()
        for i in range(16):
            self.ok("dest", "add", self.db, f"d{i:02}")
        result = self.run_cli("status", self.db, "--run-dir", self.run_dir)
        self.assertEqual(result.returncode, 0)
        self.assertIn("more than 16 destinations: see --dest", result.err)
        self.assertEqual(result.out.count("\ndestination"), 16)

    def test_status_of_no_such_destination_or_file(self):
        self.init()
        self.refused(NOT_FOUND, "no destination", "status", self.db, "--dest", "nope")
        self.refused(ERROR, "is not a file", "status", self.folder)
        self.refused(ERROR, "x/y", "status", self.write("x", "") + "/y")


if __name__ == "__main__":
    unittest.main()
