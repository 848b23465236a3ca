# SPDX-License-Identifier: MIT
"""postbag relay with a real broker, and the commands beside it."""
import signal
import unittest

from harness import (Broker, CliTest, DEADLINE_S, OK, REFUSED, Relay, wait_for)

CONFIG = """[postbag]
db = {db}
run_dir = {run_dir}
reconnect_base_ms = 50
[mqtt]
uri = tcp://127.0.0.1:{port}
client_id = {client}
"""


class RelayTest(CliTest):
    def setUp(self):
        super().setUp()
        self.init()

    def broker(self, *lines):
        broker = Broker(self.folder, *(lines or ["allow_anonymous true"]))
        self.addCleanup(broker.stop)
        return broker

    def config(self, port, client="gw", more=""):
        text = CONFIG.format(db=self.db, run_dir=self.run_dir, port=port,
                             client=client)
        return self.write(client + ".ini", text + more, 0o600)

    def relay(self, port, client="gw"):
        relay = Relay(self.config(port, client), self.path(client + ".log"))
        self.addCleanup(relay.kill)
        return relay

    def wait_for_status(self, **wanted):
        def fits():
            status = self.status()
            return status if all(
                status[name] == value for name, value in wanted.items()) else 0
        return wait_for(fits, str(wanted))

    def once(self, config):
        return self.run_cli("relay", "--once", "--config", config)

    def test_relay_delivers_while_commands_look_and_put(self):
        first = self.put("t", "before")
        relay = self.relay(self.broker().port)
        status = self.wait_for_status(delivered=1, pending=0, link="up",
                                      relay="running")
        self.assertEqual(status["lease"], "valid")
        self.assertIsNotNone(status["last_puback"])
        for i in range(20):
            self.put("t", f"while {i}", "--key", "k")
        self.wait_for_status(delivered=21, pending=0, ledger_gap=0)
        self.assertEqual(self.json("show", self.db, first)["state"],
                         "published")
        self.assertEqual(relay.stop(), OK)
        self.assertIn("<5>stopped\n", relay.log_text())
        self.wait_for_status(relay="stopped", link="down")

    def test_relay_without_a_broker_says_why_and_still_stops(self):
        broker = self.broker()
        broker.stop()
        relay = self.relay(broker.port)
        status = wait_for(
            lambda: (s := self.status())["link_attempts"] and s, "an attempt")
        self.assertEqual(status["relay"], "running")
        self.assertNotEqual(status["link"], "up")
        self.assertTrue(status["link_error"])
        relay.process.send_signal(signal.SIGINT)
        self.assertEqual(relay.process.wait(DEADLINE_S), OK)

    def test_relay_that_was_killed_is_not_shown_as_up(self):
        relay = self.relay(self.broker().port)
        self.wait_for_status(link="up", relay="running")
        relay.kill()
        status = self.status()
        self.assertEqual((status["relay"], status["link"]),
                         ("stopped", "down"))

    def test_relay_second_one_stands_by_and_takes_over(self):
        port = self.broker().port
        first = self.relay(port, "gw1")
        epoch = self.wait_for_status(link="up")["epoch"]
        second = self.relay(port, "gw2")
        wait_for(lambda: "relaying" in second.log_text(), "the second runs")
        self.put("t", "x")
        self.wait_for_status(delivered=1, epoch=epoch)
        self.assertEqual(first.stop(), OK)
        self.put("t", "y")
        self.wait_for_status(delivered=2, epoch=epoch + 1, relay="running")
        self.assertEqual(second.stop(), OK)

    def test_relay_once_ends_when_all_is_sent(self):
        config = self.config(self.broker().port)
        for i in range(300):
            self.sql("INSERT INTO outbox(topic, payload) VALUES ('t', 'x')")
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

    def test_relay_once_sends_what_was_requeued(self):
        acl = self.write("acl", "topic write allowed/#\n")
        port = self.broker("allow_anonymous true", f"acl_file {acl}").port
        self.put("forbidden/1", "x")
        config = self.config(port, more="[postbag]\nmax_attempts = 1\n")
        self.assertEqual(self.once(config).returncode, REFUSED)
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
        self.assertEqual(self.status()["pending"], 1)


if __name__ == "__main__":
    unittest.main()
