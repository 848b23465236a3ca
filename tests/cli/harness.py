# SPDX-License-Identifier: MIT
"""Runs the command, and a broker for it, in a folder that is removed."""
import json
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest

POSTBAG = os.environ["POSTBAG"]
MOSQUITTO = os.environ.get("MOSQUITTO", "mosquitto")
DEADLINE_S = 20

OK, ERROR, USAGE, NOT_FOUND, LOCKED, REFUSED, UNSOUND = range(7)


def wait_for(condition, what):
    """What condition() gives, once it is true."""
    end = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("never happened: " + what)
        time.sleep(0.02)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="postbag-cli-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.db = self.path("gw.db")
        self.run_dir = self.path("run")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run_cli(self, *args, stdin=b"", env=None):
        result = subprocess.run(
            [POSTBAG, *args], input=stdin, capture_output=True,
            timeout=DEADLINE_S, env={**os.environ, **(env or {})}, check=False)
        # what goes to a terminal has no control characters but line ends
        for stream in (result.stdout, result.stderr):
            self.assertFalse(set(stream) - {10} & set(range(32)), stream)
        result.out = result.stdout.decode()
        result.err = result.stderr.decode()
        return result

    def ok(self, *args, **more):
        """Standard output of a call that must succeed."""
        result = self.run_cli(*args, **more)
        self.assertEqual(result.returncode, OK, result.err)
        self.assertEqual(result.err, "")
        return result.out

    def json(self, *args):
        return json.loads(self.ok(*args, "-o", "json"))

    def refused(self, code, word, *args, **more):
        """A call that must fail with this code and say what is wrong."""
        result = self.run_cli(*args, **more)
        self.assertEqual(result.returncode, code, result.err)
        self.assertIn(word, result.err)
        self.assertTrue(result.err.startswith("postbag"), result.err)

    def init(self, *args):
        self.ok("init", self.db, *args)

    def put(self, topic, text, *args):
        return self.ok("put", self.db, topic, "-m", text, *args).strip()

    def sql(self, *statements):
        db = sqlite3.connect(self.db, timeout=5)
        try:
            with db:
                for statement in statements:
                    rows = db.execute(statement).fetchall()
            return rows
        finally:
            db.close()

    def status(self):
        report = self.json("status", self.db, "--run-dir", self.run_dir)
        return report["destinations"][0]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Broker:
    """Mosquitto on a free port of the loopback."""

    def __init__(self, folder, *lines, port=None):
        self.port = port or free_port()
        config = os.path.join(folder, "broker.conf")
        with open(config, "w", encoding="utf-8") as file:
            # as root it would become another user, who cannot read here
            user = pwd.getpwuid(os.getuid()).pw_name
            file.write("\n".join([f"user {user}",
                                  f"listener {self.port} 127.0.0.1",
                                  *lines, ""]))
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", config], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: listens(self.port), "the broker listens")
        except AssertionError:
            self.stop()
            raise

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Relay:
    """postbag relay in the background, its log in a file."""

    def __init__(self, config, log, *args):
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(
                [POSTBAG, "relay", "--config", config, *args], stderr=file)

    def log_text(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def stop(self):
        """The exit code after SIGTERM."""
        self.process.terminate()
        return self.process.wait(DEADLINE_S)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


CONFIG = """[postbag]
db = {db}
run_dir = {run_dir}
reconnect_base_ms = {base_ms}
[mqtt]
uri = tcp://127.0.0.1:{port}
client_id = {client}
"""


class RelayCase(CliTest):
    """With a database, and relays and brokers that end with the test."""

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
