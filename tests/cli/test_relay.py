# SPDX-License-Identifier: MIT
"""postbag relay with a real broker, and the commands beside it."""
import signal
import sqlite3
import subprocess
import unittest

from harness import (Broker, CliTest, DEADLINE_S, ERROR, LOCKED, OK, REFUSED,
                     Relay, USAGE, free_port, wait_for)

CONFIG = """[postbag]
db = {db}
run_dir = {run_dir}
reconnect_base_ms = {base_ms}
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

    def config(self, port, client="gw", more="", base_ms=50):
        text = CONFIG.format(db=self.db, run_dir=self.run_dir, port=port,
                             client=client, base_ms=base_ms)
        return self.write(client + ".ini", text + more, 0o600)

    def relay(self, port, client="gw", **more):
        relay = Relay(self.config(port, client, **more),
                      self.path(client + ".log"))
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
        self.assertIn(f"1 message is held: see postbag ls {self.db}",
                      result.err)

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

    def test_relay_once_that_holds_all_it_may_does_not_wait(self):
        acl = self.write("acl", "topic write allowed/#\n")
        port = self.broker("allow_anonymous true", f"acl_file {acl}").port
        for topic in ("forbidden/1", "forbidden/2", "allowed/1"):
            self.put(topic, "x")
        result = self.once(self.config(
            port, more="[postbag]\nheld_max_rows = 2\n"))
        self.assertEqual(result.returncode, REFUSED, result.err)
        self.assertRegex(result.err, "messages? (is|are) not sent: see")

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


if __name__ == "__main__":
    unittest.main()
