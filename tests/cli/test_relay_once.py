# SPDX-License-Identifier: MIT
"""postbag relay --once: what it sends, what it says, and when it ends."""
import unittest

from harness import (Broker, DEADLINE_S, ERROR, OK, REFUSED, Relay, RelayCase,
                     USAGE, wait_for)


class RelayOnce(RelayCase):
    def test_relay_once_ends_when_all_is_sent(self):
        config = self.config(self.broker().port)
        self.sql(*["INSERT INTO outbox(topic, payload) VALUES ('t', 'x')"]
                 * 300)
        result = self.once(config)
        self.assertEqual(result.returncode, OK, result.err)
        self.assertEqual(self.status()["delivered"], 300)
        self.assertEqual(self.once(config).returncode, OK)

    def test_relay_once_with_a_refused_message_says_so(self):
        acl = self.write("acl", "topic write allowed/#\n")
        port = self.broker("allow_anonymous true", f"acl_file {acl}").port
        self.put("allowed/1", "x")
        self.put("forbidden/1", "x")
        result = self.once(self.config(port))
        self.assertEqual(result.returncode, REFUSED, result.err)
        status = self.status()
        self.assertEqual((status["delivered"], status["held"]), (1, 1))
        row = self.json("ls", self.db, "--state", "retry")[0]
        self.assertEqual(row["topic"], "forbidden/1")
        self.assertIn("0x87", row["error"])
        self.assertIn(f"1 message is held: see postbag ls {self.db}",
                      result.err)

    def test_relay_once_that_holds_all_it_may_does_not_wait(self):
        acl = self.write("acl", "topic write allowed/#\n")
        port = self.broker("allow_anonymous true", f"acl_file {acl}").port
        for topic in ("forbidden/1", "forbidden/2", "allowed/1"):
            self.put(topic, "x")
        result = self.once(self.config(
            port, more="[postbag]\nheld_max_rows = 2\n"))
        self.assertEqual(result.returncode, REFUSED, result.err)
        self.assertRegex(result.err, "messages? (is|are) not sent: see")

    def test_relay_once_sends_what_was_requeued(self):
        acl = self.write("acl", "topic write allowed/#\n")
        port = self.broker("allow_anonymous true", f"acl_file {acl}").port
        self.put("forbidden/1", "x")
        config = self.config(port, more="[postbag]\nmax_attempts = 1\n")
        result = self.once(config)
        self.assertEqual(result.returncode, REFUSED)
        self.assertIn("1 message is dead: refused: not authorized (0x87)",
                      result.err)
        self.assertIn(f"1 message is dead: see postbag dead ls {self.db}",
                      result.err)
        self.assertEqual(self.status()["dead"], 1)
        free = self.broker("allow_anonymous true").port
        self.ok("dead", "requeue", self.db, "--all")
        result = self.once(self.config(free))
        self.assertEqual(result.returncode, OK, result.err)
        status = self.status()
        self.assertEqual((status["delivered"], status["held"],
                          status["dead"]), (1, 0, 0))

    def test_relay_once_with_a_refused_connection_says_so(self):
        self.put("t", "x")
        passwords = self.write("passwords", "")
        port = self.broker("allow_anonymous false",
                           f"password_file {passwords}").port
        config = self.config(
            port, more="username = gw\npassword = secret-word\n")
        result = self.once(config)
        self.assertEqual(result.returncode, REFUSED, result.err)
        self.assertNotIn("secret-word", result.err)
        self.assertIn(f"1 message is not sent: see postbag ls {self.db}",
                      result.err)
        self.assertEqual(self.status()["pending"], 1)

    def test_relay_once_waits_for_the_broker(self):
        broker = self.broker()
        broker.stop()
        self.put("t", "x")
        relay = Relay(self.config(broker.port), self.path("once.log"),
                      "--once")
        self.addCleanup(relay.kill)
        wait_for(lambda: relay.log_text().count("next try in") > 2, "retries")
        self.addCleanup(Broker(self.folder, "allow_anonymous true",
                               port=broker.port).stop)
        self.assertEqual(relay.process.wait(DEADLINE_S), OK)
        self.assertEqual(self.status()["delivered"], 1)

    def test_relay_obeys_the_profile_that_the_database_has(self):
        broker = self.broker()
        self.put("1/2/3/4/5/6/7/8/9", "too deep")
        self.put("1/2/3/4/5/6/7/8", "fine")
        self.init("--profile", "aws")
        result = self.once(self.config(broker.port,
                                       more="keepalive_s = 20\n"))
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("keepalive_s: is 20; profile aws: at least 30 s",
                      result.err)
        result = self.once(self.config(broker.port))
        self.assertEqual(result.returncode, REFUSED)
        self.assertIn(f"1 message is dead: see postbag dead ls {self.db}",
                      result.err)
        status = self.status()
        self.assertEqual((status["delivered"], status["profile"]), (1, "aws"))
        self.assertRegex(self.ok("status", self.db), r"(?m)^profile +aws$")
        self.assertEqual(
            self.sql("SELECT topic, error FROM outbox_held"),
            [("1/2/3/4/5/6/7/8/9",
              "profile aws: topic has more than 7 slashes")])

    def test_relay_sets_limits_and_put_is_refused_until_it_drains(self):
        limits = "max_rows = 4\nmax_bytes = 1000\n[mqtt]"
        port = self.broker().port
        text = open(self.config(port), encoding="utf-8").read()
        config = self.write("limits.ini", text.replace("[mqtt]", limits),
                            0o600)
        self.assertEqual(self.once(config).returncode, OK)
        for i in range(3):
            self.put("t", str(i))
        self.assertIn("75 % of max_rows, 4 messages, waits for main; FULL for"
                      " priority 0\n",
                      self.ok("status", self.db))
        self.refused(ERROR, "outbox is full: max_rows (4) messages wait,"
                     " less an eighth that is kept for priority 1 to 3",
                     "put", self.db, "t", "-m", "x")
        self.put("t", "3", "--priority", "1")
        self.refused(ERROR, "outbox is full: max_rows (4) messages wait",
                     "put", self.db, "t", "-m", "x", "--priority", "1")
        text = self.ok("status", self.db)
        self.assertIn("100 % of max_rows, 4 messages,", text)
        self.assertRegex(text, r"limit +0 % of max_bytes, 1000 B, waits for")
        database = self.json("status", self.db)["database"]
        self.assertEqual(database["max_rows"], 4)
        self.assertEqual(database["max_bytes"], 1000)
        self.assertEqual(self.once(config).returncode, OK)
        self.put("t", "x")
        self.assertIn("25 % of max_rows", self.ok("status", self.db))

    def test_relay_limit_is_told_where_bulk_meets_it(self):
        port = self.broker().port
        self.assertEqual(self.once(self.config(
            port, more="[postbag]\nmax_rows = 8\n")).returncode, OK)
        for i in range(6):
            self.put("t", str(i))
        line = r"(?m)^limit +%d %% of max_rows, 8 messages, waits for main%s$"
        self.assertRegex(self.ok("status", self.db), line % (75, ""))
        self.put("t", "7th")
        self.refused(ERROR, "outbox is full", "put", self.db, "t", "-m", "x")
        self.assertRegex(self.ok("status", self.db),
                         line % (87, "; FULL for priority 0"))
        self.assertEqual(
            self.json("status", self.db)["database"]["rows_fill"], 1000)
        self.put("t", "8th", "--priority", "1")
        self.assertRegex(self.ok("status", self.db), line % (100, "; FULL"))

    def test_relay_limit_is_told_as_the_next_put_sees_it(self):
        port = self.broker().port
        self.ok("dest", "add", self.db, "late", "--from", "now")
        config = self.config(port, more="[postbag]\nmax_rows = 3\n")
        self.assertEqual(self.once(config).returncode, OK)
        for i in range(3):
            self.put("t", str(i), "--priority", "1")
        self.assertEqual(self.once(config).returncode, OK)
        self.refused(ERROR, "outbox is full", "put", self.db, "t", "-m", "x")
        self.assertIn("100 % of max_rows, 3 messages, waits for late; FULL\n",
                      self.ok("status", self.db, "--dest", "main"))
        database = self.json("status", self.db)["database"]
        self.assertEqual(database["waiting_rows"], 3)
        self.assertEqual(database["waiting_rows_for"], "late")


if __name__ == "__main__":
    unittest.main()
