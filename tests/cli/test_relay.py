# SPDX-License-Identifier: MIT
"""postbag relay with a real broker, and the commands beside it."""
import signal
import subprocess
import unittest

from harness import (Broker, DEADLINE_S, LOCKED, OK, Relay, RelayCase,
                     free_port, wait_for)


class RelayTest(RelayCase):
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

    def test_relay_sends_kept_messages_again_with_ids_and_mark(self):
        broker = self.broker()
        ids = [self.put("t", str(i), "--key", "k") for i in range(3)]
        seen = self.path("seen")
        listen = ["mosquitto_sub", "-V", "mqttv5", "-h", "127.0.0.1", "-p",
                  str(broker.port), "-q", "1", "-t", "t", "-F", "%p %P", "-i",
                  "listener", "-c", "-x", "100"]
        subprocess.run([*listen, "-E"], check=True, timeout=DEADLINE_S)
        with open(seen, "wb") as file:
            listener = subprocess.Popen(listen, stdout=file)
        self.addCleanup(listener.wait)
        self.addCleanup(listener.terminate)
        config = self.config(broker.port)
        text = open(config, encoding="utf-8").read()
        self.write("gw.ini", text.replace("[mqtt]", "keep_s = 600\n[mqtt]"),
                   0o600)
        relay = Relay(config, self.path("gw.log"))
        self.addCleanup(relay.kill)
        self.wait_for_status(delivered=3, pending=0)
        self.refused(LOCKED, "somebody has the database open", "vacuum",
                     self.db, "--wait", "50")
        self.ok("replay", self.db, "--from", "1")
        self.wait_for_status(delivered=6, held=0, ledger_gap=0)
        self.assertIn("sound", self.ok("verify", self.db))

        def all_seen():
            with open(seen, encoding="utf-8") as file:
                lines = file.read().splitlines()
            return lines if len(lines) >= 6 else None
        lines = wait_for(all_seen, "all arrive")
        self.assertEqual([line.split()[0] for line in lines],
                         ["0", "1", "2"] * 2)
        for i, line in enumerate(lines):
            self.assertIn("id:" + ids[i % 3], line)
            self.assertEqual("replay:true" in line, i >= 3, line)
        self.assertEqual(relay.stop(), OK)

    def test_relay_pace_and_room_are_told(self):
        self.assertRegex(self.ok("status", self.db),
                         r"(?m)^room +[0-9.]+ [KMGT]iB, min_free_bytes 256\.0"
                         " KiB$")
        relay = self.relay(self.broker().port, more="[postbag]\n"
                           "bulk_rate = 10\nbulk_bytes_rate = 2048\n"
                           "min_free_bytes = 4000000000\n")
        status = self.wait_for_status(link="up")
        self.assertEqual((status["bulk_rate"], status["bulk_bytes_rate"],
                          status["pace_all"]), (10, 2048, 0))
        text = self.ok("status", self.db, "--run-dir", self.run_dir)
        self.assertRegex(text,
                         r"(?m)^pace +priority 0 10/s, 2\.0 KiB/s at most$")
        self.assertRegex(text, r"(?m)^room .*, min_free_bytes 3\.7 GiB")
        database = self.json("status", self.db)["database"]
        self.assertEqual(database["min_free_bytes"], 4000000000)
        self.assertEqual(
            "; FULL" in text, database["room_bytes"] <= 4000000000)
        self.refused(LOCKED, "stop the relay", "init", self.db, "--prepare",
                     "6000000", "--wait", "50")
        self.assertEqual(relay.stop(), OK)
        self.assertIsNone(self.status()["bulk_rate"])

    def test_relay_without_a_broker_says_why_and_still_stops(self):
        broker = self.broker()
        broker.stop()
        relay = self.relay(broker.port)
        status = wait_for(
            lambda: (s := self.status())["link_attempts"] and s, "an attempt")
        self.assertEqual(status["relay"], "running")
        self.assertNotEqual(status["link"], "up")
        self.assertTrue(status["link_error"])
        self.assertIsNone(status["server"])
        relay.process.send_signal(signal.SIGINT)
        self.assertEqual(relay.process.wait(DEADLINE_S), OK)

    def test_relay_is_told_of_the_network_by_signals(self):
        broker = self.broker()
        broker.stop()
        relay = self.relay(broker.port, base_ms=300000)
        wait_for(lambda: self.status()["link_attempts"], "an attempt")
        self.assertRegex(
            self.ok("status", self.db, "--run-dir", self.run_dir),
            r"(?m)^link +down, failed once: ")
        relay.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: "told that the network is gone" in relay.log_text(),
                 "the relay was told")
        self.addCleanup(Broker(self.folder, "allow_anonymous true",
                               port=broker.port).stop)
        relay.process.send_signal(signal.SIGUSR1)
        self.wait_for_status(link="up", server=1)
        self.assertIn("told that the network is back", relay.log_text())
        self.assertEqual(relay.stop(), OK)

    def test_relay_told_twice_while_it_stood_still_tries(self):
        """Signals that wait do not come in the order in which they were
        sent."""
        broker = self.broker()
        broker.stop()
        relay = self.relay(broker.port, base_ms=300000)
        wait_for(lambda: self.status()["link_attempts"], "an attempt")
        self.addCleanup(Broker(self.folder, "allow_anonymous true",
                               port=broker.port).stop)
        for number in (signal.SIGSTOP, signal.SIGUSR2, signal.SIGUSR1,
                       signal.SIGCONT):
            relay.process.send_signal(number)
        self.wait_for_status(link="up")
        self.assertNotIn("network is gone", relay.log_text())
        self.assertEqual(relay.stop(), OK)

    def test_relay_status_names_the_server_and_the_certificates(self):
        cert, key = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", key, "-out", cert], check=True, capture_output=True)
        broker = self.broker("allow_anonymous true", f"certfile {cert}",
                             f"keyfile {key}")
        port = broker.port
        config = self.config(port, more=f"ca_file = {cert}\n")
        with open(config, encoding="utf-8") as file:
            text = file.read().replace(
                f"uri = tcp://127.0.0.1:{port}",
                f"uri = ssl://localhost:{free_port()},ssl://localhost:{port}")
        self.write("gw.ini", text, 0o600)
        relay = Relay(config, self.path("gw.log"))
        self.addCleanup(relay.kill)
        status = self.wait_for_status(link="up", server=2)
        self.assertIsNone(status["own_certificate_end"])
        self.assertRegex(status["server_certificate_end"], r"^20\d\d-.*Z$")
        text = self.ok("status", self.db, "--run-dir", self.run_dir)
        self.assertRegex(text, r"(?m)^link +up, server 2 of the list$")
        self.assertRegex(text, r"(?m)^certificate +the broker's, ends 20.*"
                               r" \(in [12] d \d+ h\)$")
        broker.stop()
        down = self.wait_for_status(link="down", server=None)
        self.assertEqual(down["server_certificate_end"],
                         status["server_certificate_end"])
        self.assertEqual(relay.stop(), OK)

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

    def test_relay_that_holds_all_it_may_shows_it(self):
        acl = self.write("acl", "topic write allowed/#\n")
        port = self.broker("allow_anonymous true", f"acl_file {acl}").port
        for topic in ("forbidden/1", "forbidden/2", "allowed/1"):
            self.put(topic, "x")
        relay = self.relay(port, more="[postbag]\nheld_max_rows = 2\n")
        status = self.wait_for_status(held=2, pending=1, held_full=1)
        self.assertEqual((status["held_bytes"], status["dead_bytes"]), (24, 0))
        self.assertRegex(
            self.ok("status", self.db, "--run-dir", self.run_dir),
            r"(?m)^held +2 \(24 B\): .*; FULL: new messages wait until")
        self.assertEqual(relay.stop(), OK)
        self.assertIn("new ones wait until there are fewer", relay.log_text())

    def test_relay_takes_a_renewed_password_when_it_is_told(self):
        users = self.path("users")
        subprocess.run(["mosquitto_passwd", "-b", "-c", users, "gw", "right"],
                       check=True, capture_output=True)
        port = self.broker("allow_anonymous false",
                           f"password_file {users}").port
        secret = self.write("secret", "right\n", 0o600)
        relay = self.relay(port, base_ms=300000, more=(
            f"username = gw\npassword_file = {secret}\n"))
        self.wait_for_status(link="up")
        connected = "outbound link: connected"
        for i in range(100):
            self.sql(*["INSERT INTO outbox(topic, payload) VALUES ('t', 'x')"]
                     * 10)
            if i == 50:
                relay.process.send_signal(signal.SIGHUP)
        wait_for(lambda: relay.log_text().count(connected) == 2, "a new one")
        self.wait_for_status(delivered=1000, pending=0, link_attempts=0)
        # in good order
        self.assertNotIn("<4>", relay.log_text())
        # what the file holds now is what the new connection uses
        self.write("secret", "wrong\n", 0o600)
        relay.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "refused the connection" in relay.log_text(),
                 "a refusal")
        self.put("t", "meanwhile")
        self.write("secret", "right\n", 0o600)
        relay.process.send_signal(signal.SIGHUP)
        self.wait_for_status(link="up", delivered=1001, held=0, dead=0)
        self.assertEqual(relay.log_text().count(connected), 3)
        self.assertEqual(relay.stop(), OK)


if __name__ == "__main__":
    unittest.main()
