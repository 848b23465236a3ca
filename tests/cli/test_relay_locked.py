# SPDX-License-Identifier: MIT
"""postbag relay while another process keeps its database locked."""
import sqlite3
import unittest

from harness import OK, RelayCase, wait_for


class RelayLocked(RelayCase):
    def test_relay_waits_for_a_locked_database_at_its_start(self):
        port = self.broker().port
        other = sqlite3.connect(self.db, isolation_level=None, timeout=5)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        more = "[postbag]\nmax_rows = 100\n"  # has to be written
        first = self.relay(port, more=more)
        second = self.relay(port, client="other", more=more)
        for relay in (first, second):
            wait_for(lambda r=relay: "waiting for it" in r.log_text(), "told")
        self.assertEqual(second.stop(), OK)  # while it waits
        other.execute("COMMIT")
        self.wait_for_status(link="up")
        self.assertEqual(first.stop(), OK)

    def test_relay_behind_a_lasting_lock_says_that_nothing_is_sent(self):
        relay = self.relay(self.broker().port)
        self.wait_for_status(link="up", stalled=None)
        other = sqlite3.connect(self.db, isolation_level=None, timeout=5)
        self.addCleanup(other.close)
        self.put("t", "x")  # its PUBACK is not saved before a second is over
        other.execute("BEGIN IMMEDIATE")
        self.wait_for_status(link="up", stalled="locked")
        self.assertRegex(
            self.ok("status", self.db, "--run-dir", self.run_dir),
            r"(?m)^STALLED +nothing is sent: another process keeps the")
        other.execute("COMMIT")
        self.wait_for_status(stalled=None, pending=0)
        self.assertEqual(relay.stop(), OK)
        self.assertIn("another process keeps the database locked",
                      relay.log_text())
        self.assertIn("the cursor is saved again", relay.log_text())


if __name__ == "__main__":
    unittest.main()
