# SPDX-License-Identifier: MIT
"""What the tests of whole processes share.

A test is a file with classes of rig.Case; it ends in rig.main().  Each test
method has a folder of its own and starts gateways (gateway.c), brokers and
subscribers in it; they are ended by pid afterwards, and die with this process
(parent-death signal) should it be killed.  Nothing waits by sleeping: wait_for
looks at a condition until a deadline.

At the end of each, whatever was done to the processes, the command verify
looks at the database.

Environment: POSTBAG_GATEWAY and POSTBAG_PUTTER, the programs; POSTBAG_COMMAND,
the command; POSTBAG_FULL=1, longer runs; POSTBAG_SEED, to repeat a run.
"""
import contextlib
import ctypes
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FULL = os.environ.get("POSTBAG_FULL") == "1"
PROVE = os.environ.get("POSTBAG_PROVE") == "1"
SEED = int(os.environ.get("POSTBAG_SEED") or random.SystemRandom()
           .randrange(1 << 32))
WAIT_S = 30
GATEWAY = os.environ.get("POSTBAG_GATEWAY")
COMMAND = os.environ.get("POSTBAG_COMMAND")


def need(*tools):
    """Skip the whole file unless the programs are there."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        print(f"skipped: not installed: {' '.join(missing)}")
        sys.exit(77)


def in_own_network(*commands):
    """Run this file again in a network namespace of its own, where its
    loopback is shaped by the commands and nobody else's is.  Where that is
    not permitted the file is skipped."""
    if os.environ.get("POSTBAG_OWN_NETWORK"):
        for command in ("ip link set lo up", *commands):
            subprocess.run(command.split(), check=True)
        return
    need("unshare", "ip", "tc")
    rootless = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--net", *rootless]
    if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        print("skipped: not permitted: unshare --net")
        sys.exit(77)
    os.environ["POSTBAG_OWN_NETWORK"] = "1"
    os.execvp("unshare", [*command, sys.executable, *sys.argv])


def wait_for(condition, what, seconds=WAIT_S):
    """The condition's first true value; AssertionError at the deadline."""
    return wait_long(condition, what, lambda: None, seconds)


def wait_long(condition, what, progress, seconds=WAIT_S):
    """For long work: the deadline is for standing still, because machines
    differ in how long they take for all."""
    last, end = progress(), time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            now = progress()
            if now == last:
                at = "" if now is None else f"; it stands at {now}"
                raise AssertionError(f"not within {seconds} s: {what}{at}")
            last, end = now, time.monotonic() + seconds
        time.sleep(0.005)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Process:
    """A child; what it says goes to NAME.out and NAME.err in the folder."""

    def __init__(self, folder, name, command, env=None, **popen):
        self.name = name
        self.out_path = os.path.join(folder, name + ".out")
        self.err_path = os.path.join(folder, name + ".err")
        with open(self.out_path, "ab") as out, \
                open(self.err_path, "ab") as err:
            self.popen = subprocess.Popen(
                command, stdout=out, stderr=err, preexec_fn=_die_with_parent,
                env={**os.environ, **(env or {})}, **popen)
        self.pid = self.popen.pid

    def out(self):
        return self._read(self.out_path)

    def err(self):
        return self._read(self.err_path)

    @staticmethod
    def _read(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def is_running(self):
        return self.popen.poll() is None

    def wait_text(self, read, text, count=1, seconds=WAIT_S):
        """Until read() holds the text so often."""
        def seen():
            found = read().count(text) >= count
            if not found and not self.is_running():
                raise AssertionError(f"{self.name} ended before {text!r}: "
                                     f"{self.err()[-2000:]}")
            return found
        wait_for(seen, f"{self.name} says {text!r}", seconds)

    def wait_out(self, text, count=1, seconds=WAIT_S):
        self.wait_text(self.out, text, count, seconds)

    def wait_err(self, text, count=1, seconds=WAIT_S):
        self.wait_text(self.err, text, count, seconds)

    def signal(self, number):
        self.popen.send_signal(number)

    def pause(self):
        """Stands still when this returns."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def end(self):
        """SIGTERM; the exit code, which a sanitizer's report makes not 0."""
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            return self.popen.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def clean_up(self):
        if self.is_running():
            self.kill()


class Broker(Process):
    """mosquitto; `lines` are added to its configuration."""

    def __init__(self, folder, name="broker", lines=(), port=None):
        self.folder = folder
        self.conf = os.path.join(folder, name + ".conf")
        for _ in range(5):
            self.port = port or free_port()
            self._write(lines)
            super().__init__(folder, name, self._command())
            if self._accepts():
                return
        raise AssertionError(f"no mosquitto: {self.err()[-2000:]}")

    def _write(self, lines):
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write("\n".join([
                f"listener {self.port} 127.0.0.1", "log_type all",
                # with 0, for no limit, it hangs up after a refused PUBLISH
                "max_queued_messages 10000000", "max_inflight_messages 0",
                "user root", *lines,
                "" if any(line.startswith("allow_anonymous")
                          for line in lines) else "allow_anonymous true",
                ""]))

    def _command(self):
        return ["mosquitto", "-c", self.conf]

    def _accepts(self):
        """False if it ended at once: another took its port."""
        def answers():
            if not self.is_running():
                return True
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            return False
        wait_for(answers, "mosquitto accepts")
        return self.is_running()

    def restart(self):
        """Ends it if it runs; the same port and configuration."""
        if self.is_running():
            self.end()
        super().__init__(self.folder, self.name, self._command())
        if not self._accepts():
            raise AssertionError(f"no mosquitto: {self.err()[-2000:]}")

    def uri(self, scheme="tcp", host="127.0.0.1"):
        return f"{scheme}://{host}:{self.port}"


class FakeBroker(Process):
    """fakebroker.py, which see."""

    def __init__(self, folder, *settings):
        self.folder, self.settings = folder, settings
        self.log_path = os.path.join(folder, "fake.log")
        self._start("port=0", 1)
        self.port = int(self.out().split()[1])

    def _start(self, port, starts):
        super().__init__(
            self.folder, "fake",
            [sys.executable, os.path.join(HERE, "fakebroker.py"),
             self.log_path, port, *self.settings],
            stdin=subprocess.PIPE, text=True)
        self.wait_out("\n", starts)

    def restart(self):
        """The same port and settings; sessions are forgotten."""
        FakeBroker.clean_up(self)
        self.popen.wait()
        self._start(f"port={self.port}", self.out().count("\n") + 1)

    def log(self):
        return self._read(self.log_path)

    def wait_log(self, text, count=1):
        self.wait_text(self.log, text, count)

    def tell(self, line):
        """Done when this returns."""
        before = self.log().count(f"did {line}")
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()
        self.wait_log(f"did {line}", before + 1)

    def uri(self):
        return f"tcp://127.0.0.1:{self.port}"

    def clean_up(self):
        self.popen.stdin.close()
        super().clean_up()


class Message:
    """One line of a subscriber."""

    FORMAT = "%t\t%C\t%D\t%P\t%x"

    def __init__(self, line):
        (self.topic, self.content_type, self.correlation, self.properties,
         payload) = line.split("\t")
        self.payload = bytes.fromhex(payload).decode()
        self.id = self.property("id")

    def property(self, name):
        """The value of a user property without blanks in it, or None."""
        found = re.search(rf"(?:^| ){name}:(\S*)", self.properties)
        return found.group(1) if found else None


class Subscriber(Process):
    """mosquitto_sub of all topics; connected when made."""

    def __init__(self, folder, broker, name="subscriber", topic="#",
                 version="mqttv5", login=(), kind=Message):
        super().__init__(folder, name, [
            "stdbuf", "-oL", "mosquitto_sub", "-V", version, "-h",
            "127.0.0.1", "-p", str(broker.port), "-q", "1", "-i", name, "-t",
            topic, "-F", kind.FORMAT, *login])
        self.broker, self.kind = broker, kind
        self._offset = 0
        self._messages = []
        self.wait_subscribed(1)

    def wait_subscribed(self, count):
        self.broker.wait_err(f"Sending SUBACK to {self.name}\n", count)

    def messages(self):
        """All so far; reads on where it stopped."""
        with open(self.out_path, "rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._offset += whole
        self._messages += [self.kind(line) for line
                           in text[:whole].decode(errors="replace")
                           .split("\n")[:-1]]
        return self._messages

    def ids(self):
        return [message.id for message in self.messages()]

    def payloads(self):
        return [message.payload for message in self.messages()]

    def wait_payload(self, payload, seconds=WAIT_S):
        wait_for(lambda: payload in self.payloads(),
                 f"{payload!r} arrives", seconds)


class Database:
    """A plain SQL client of the gateway's database."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path, timeout=10,
                                          isolation_level=None)

    def run(self, sql, *values):
        return self.connection.execute(sql, values)

    def rows(self, sql, *values):
        return self.run(sql, *values).fetchall()

    def value(self, sql, *values):
        return self.rows(sql, *values)[0][0]

    def put(self, payload, topic="t"):
        self.run("INSERT INTO outbox(topic, payload) VALUES (?, ?)", topic,
                 payload)

    def put_many(self, first, count, size=0):
        """count messages with the payloads first, first + 1, ..., filled up
        with blanks, in one transaction."""
        self.run(
            "INSERT INTO outbox(topic, payload) WITH RECURSIVE n(i) AS"
            " (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2 - 1)"
            " SELECT 't', printf('%-*s', ?3, i) FROM n", first, count, size)

    def counts(self):
        """put, and the sums of the cursors' counters."""
        put, = self.rows("SELECT ifnull(max(seq), 0) FROM outbox")[0]
        sums = self.rows(
            "SELECT sum(settled_rows), sum(delivered), sum(dropped),"
            " sum(passed) FROM outbox_cursor WHERE dest = 'main'")[0]
        held = self.value("SELECT count(*) FROM outbox_held")
        return dict(zip(("put", "settled", "delivered", "dropped", "passed",
                         "held"), (put, *sums, held)))

    def wait_settled(self, seconds=WAIT_S):
        """Until each row put is settled, delivered or held."""
        def settled():
            now = self.counts()
            return now["settled"] == now["put"] and now
        return wait_long(settled, "all is settled", self.counts, seconds)

    def id_of(self, payload):
        """Text form of the id under which a payload waits or stands."""
        raw = self.value(
            "SELECT id FROM outbox WHERE payload = ?1 UNION"
            " SELECT id FROM outbox_held WHERE payload = ?1", payload).hex()
        return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


class Case(unittest.TestCase):
    def run(self, result=None):
        with tempfile.TemporaryDirectory(prefix="postbag-") as self.folder:
            result = super().run(result)
            if not result.wasSuccessful():
                self._show_logs()
        return result

    def _show_logs(self):
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".err", ".out", ".log")):
                with open(os.path.join(self.folder, name), "rb") as file:
                    text = file.read()[-3000:].decode(errors="replace")
                print(f"--- end of {name}:\n{text}", flush=True)

    def setUp(self):
        self.db_path = os.path.join(self.folder, "gw.db")
        self.random = random.Random(SEED)
        # the first to be registered is the last to run: all processes are gone
        self.addCleanup(self.verify)

    def verify(self):
        """The ledger is right, and the tables fit each other."""
        if COMMAND and os.path.exists(self.db_path):
            done = subprocess.run([COMMAND, "verify", self.db_path],
                                  capture_output=True, text=True, check=False,
                                  timeout=WAIT_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def keep(self, process):
        self.addCleanup(process.clean_up)
        return process

    def broker(self, **options):
        return self.keep(Broker(self.folder, **options))

    def fake_broker(self, *settings):
        return self.keep(FakeBroker(self.folder, *settings))

    def subscriber(self, broker, **options):
        return self.keep(Subscriber(self.folder, broker, **options))

    def gateway(self, uri, *words, name="gateway", prefix=(), env=None):
        """Ready, but perhaps not connected, when this returns."""
        run_dir = os.path.join(self.folder, "run")
        os.makedirs(run_dir, exist_ok=True)
        process = self.keep(Process(
            self.folder, name,
            [*prefix, GATEWAY, self.db_path,
             f"uri={uri}", f"client_id={name}", f"run_dir={run_dir}",
             "reconnect_base_ms=100", "reconnect_cap_ms=1000", *words], env))
        process.wait_out("thread ")
        return process

    def database(self):
        database = Database(self.db_path)
        self.addCleanup(database.connection.close)
        return database

    def publish(self, broker, topic, payload, *options):
        """With mosquitto_pub, QoS 1; done when the broker has it."""
        subprocess.run(
            ["mosquitto_pub", "-V", "mqttv5", "-h", "127.0.0.1", "-p",
             str(broker.port), "-q", "1", "-t", topic, "-m", payload,
             *options], check=True, timeout=WAIT_S)

    def live_state(self):
        """What the relay says of itself, as a dict; {} before it did."""
        run_dir = os.path.join(self.folder, "run")
        for name in os.listdir(run_dir):
            if name.endswith(".state"):
                with open(os.path.join(run_dir, name),
                          encoding="utf-8") as file:
                    return dict(line.rstrip("\n").split("=", 1)
                                for line in file)
        return {}

    def assert_sound(self, database):
        """No page is damaged, no index misses a row, and the ledger is
        right."""
        self.assertEqual(database.value("PRAGMA integrity_check"), "ok")
        self.verify()


def main():
    print(f"seed {SEED} (POSTBAG_SEED={SEED} repeats)", flush=True)
    unittest.main(verbosity=2, failfast=True)
