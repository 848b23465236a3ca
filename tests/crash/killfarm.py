# SPDX-License-Identifier: MIT
"""Many databases, whose processes are killed again and again as fast as the
machine permits, with one broker that stays; and what must hold after each.

A site is one database with its processes:

  firmware   commits state and messages, and relays
  handler    the same, and handles commands
  relay      relays only; beside it the sqlite3 shell puts in plain SQL
  command    the same with the command postbag relay

killcheck.py says what must hold after a kill.
"""
import collections
import contextlib
import os
import select
import signal
import sqlite3
import subprocess
import time

import mqtt5
import proof
import rig
from killcheck import Checks, View

STUCK_S = 60
TRANSACTION = """BEGIN IMMEDIATE;
INSERT INTO state(n, id) SELECT ifnull(max(n), 0) + 1, randomblob(16)
 FROM state;
{between}INSERT INTO outbox(topic, payload, key, id)
 SELECT 'gw/data', CAST(n AS TEXT), 'k' || (n % 4), id FROM state
 ORDER BY n DESC LIMIT 1;
COMMIT;
SELECT 'committed ' || max(n) FROM state;
"""
TORN = TRANSACTION.format(between="COMMIT;\nBEGIN IMMEDIATE;\n")
WHOLE = TRANSACTION.format(between="")


class Site(Checks):
    """Its processes are the victims."""

    def __init__(self, farm, number):
        super().__init__()
        self.farm, self.number = farm, number
        self.random = farm.random
        self.folder = os.path.join(farm.folder, f"site{number}")
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "gw.db")
        self.name = f"/site{number}"
        self.keeps = number % 4 < 2
        self.victims, self.lives = {}, 0
        self.commands = 0
        self.said_before = self.log_before = 0
        self.due = self.gate = None

    # ---- processes ----------------------------------------------------------

    def words(self):
        return [f"uri={self.farm.broker.uri()}", f"client_id=s{self.number}",
                f"source={self.name}", "run_dir=none",
                "reconnect_base_ms=10", "reconnect_cap_ms=100",
                f"ack_delay_ms={self.random.choice((1, 50, 1000))}",
                f"keep_s={3600 if self.keeps else 0}", "lease_ms=1000"]

    def work(self):
        return ["work=4000000000",
                f"gap_us={self.random.choice((1000, 3000, 6000))}"]

    def start(self, name, command, **popen):
        with open(os.path.join(self.folder, "said"), "ab") as said, \
                open(os.path.join(self.folder, name + ".err"), "ab") as err:
            self.victims[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdout=said,
                stderr=err, **popen)

    def start_all(self, work=True):
        self.lives += 1
        if "relay" not in self.victims:
            self.said_before = self.said_size() if self.lives > 1 else 0
            words = self.work() if work else ["work=0"]
            self.start("relay", [rig.GATEWAY, self.path, *self.words(),
                                 *words])

    def feed(self):
        """Called every few ms."""

    def choose(self):
        return list(self.victims)

    def draw(self):
        """When the next kill comes: some time after something happened."""
        self.start_all()
        what = self.random.choices(("start", "told", "arrived"), (2, 3, 5))[0]
        self.gate = (what, time.monotonic() + STUCK_S,
                     sum(self.arrived.values()), self.said_size())
        self.due = None

    def said_size(self):
        return os.path.getsize(os.path.join(self.folder, "said"))

    def is_due(self, now):
        if self.due is None:
            what, deadline, arrived, said = self.gate
            if what == "start" or \
                    (what == "told" and self.said_size() > said + 20) or \
                    (what == "arrived"
                     and sum(self.arrived.values()) > arrived):
                self.due = now + self.random.uniform(0, 0.06)
            elif now > deadline:
                raise AssertionError(f"{self.folder}: nothing {what} within "
                                     f"{STUCK_S} s: {self.tail()}")
        return self.due is not None and now >= self.due

    def tail(self):
        texts = []
        for name in os.listdir(self.folder):
            if name.endswith(".err"):
                with open(os.path.join(self.folder, name), "rb") as file:
                    texts.append(file.read().decode(errors="replace"))
        return "\n".join(texts)

    def kill(self):
        """Now; who had ended by itself was no victim."""
        for name in self.choose():
            victim = self.victims.pop(name)
            victim.send_signal(signal.SIGKILL)
            if victim.wait() != -9:
                raise AssertionError(f"{name} ended by itself: {self.tail()}")
            if victim.stdin:
                with contextlib.suppress(BrokenPipeError):
                    victim.stdin.close()
            self.kills += 1
            self.unseen += 1
        self.due = None

    # ---- the end ------------------------------------------------------------

    def finish(self):
        """A life without a kill; then all has arrived and all is done."""
        self.end_all()
        self.start_all(work=False)
        self.wait_ready()
        end = time.monotonic() + STUCK_S
        while not self.is_all_done():
            self.farm.pump(0.01)
            if time.monotonic() > end:
                self.complain("lost", f"not all is settled: {self.tail()}")
                break
        self.end_all()
        self.look()
        self.check_all()

    def end_all(self):
        for name in list(self.victims):
            self.end(name)

    def wait_ready(self):
        def is_ready():
            with open(os.path.join(self.folder, "said"), "rb") as file:
                file.seek(self.said_before)
                if b"ready\n" in file.read():
                    return True
            if any(v.poll() is not None for v in self.victims.values()):
                raise AssertionError(f"it ended: {self.tail()}")
            return False
        rig.wait_for(is_ready, "the relay is ready, and so can end in order",
                     STUCK_S)

    def end(self, name):
        victim = self.victims.pop(name)
        if victim.stdin:
            victim.stdin.close()
        else:
            self.wait_ready()
            victim.send_signal(signal.SIGTERM)
        code = victim.wait(rig.WAIT_S)
        if code != 0:
            raise AssertionError(f"{name} ended with {code}: {self.tail()}")

    def is_all_done(self):
        view = View(self.path)
        try:
            put, = view.one("SELECT ifnull(max(seq), 0) FROM outbox")
            settled, = view.one("SELECT sum(settled_rows) FROM outbox_cursor")
            alive, = view.one("SELECT count(*) FROM outbox_held")
            return put == settled and not alive
        finally:
            view.close()

    def check_all(self):
        view = View(self.path)
        try:
            self.farm.client.barrier()
            state = {row[0].hex() for row in view.rows("SELECT id FROM state")}
            missing = state - set(self.arrived)
            if missing:
                self.complain("lost", f"{len(missing)} never came")
            if view.one("PRAGMA integrity_check")[0] != "ok":
                self.complain("damage", "integrity_check")
        finally:
            view.close()
        self.verify()
        self.farm.messages += len(state)
        self.farm.again += sum(self.arrived.values()) - len(self.arrived)

    def verify(self):
        if not os.path.exists(self.path):
            return
        done = subprocess.run([rig.COMMAND, "verify", self.path], check=False,
                              capture_output=True, text=True,
                              timeout=2 * rig.WAIT_S)
        # killed before its tables were made: there is nothing to verify
        if done.returncode != 0 and self.lives > 3:
            self.complain("damage", done.stdout + done.stderr)

    def clean_up(self):
        for victim in self.victims.values():
            victim.kill()
            victim.wait()
            if victim.stdin:
                with contextlib.suppress(BrokenPipeError):
                    victim.stdin.close()
        self.victims = {}


class Firmware(Site):
    pass


class Handler(Site):
    """Commands come in, some twice."""

    def __init__(self, farm, number):
        super().__init__(farm, number)
        self.keeps = True
        self.topic = f"cmd/{number}"
        self.is_subscribed = False

    def words(self):
        return [*super().words(), f"commands={self.topic}",
                "reply_topics=gw/reply"]

    def work(self):
        return ["work=4000000000", "gap_us=10000"]

    def feed(self):
        if not self.is_subscribed:  # nobody would keep it
            self.is_subscribed = "inbound link: subscribed" in self.tail()
        elif self.random.random() < 0.3:
            self.commands += 1
            for _ in range(self.random.choice((1, 1, 1, 2))):
                self.farm.client.publish(
                    self.topic, f'{{"id":"c{self.commands}","source":"cloud"}}',
                    "gw/reply")

    def replies(self, view):
        return None  # a command that comes again is answered again

    def times_put(self, view, message_id):
        """The same answer, under the same id."""
        return view.one("SELECT count(*) FROM outbox WHERE id = ?",
                        bytes.fromhex(message_id))[0]

    def compare_effects(self, view):
        effects = view.rows("SELECT rowid, command FROM effect WHERE rowid > ?",
                            self.low["effect"])
        count, distinct = view.one("SELECT count(*), count(DISTINCT command)"
                                   " FROM effect")
        if count != distinct:
            self.complain("effect", f"{count} of {distinct} commands")
        answered = {bytes(row[0]) if isinstance(row[0], bytes)
                    else row[0].encode() for row in
                    view.rows("SELECT payload FROM outbox"
                              " WHERE topic = 'gw/reply'")}
        silent = {command.encode() for _, command in effects} - answered
        if silent:
            self.complain("torn", f"{len(silent)} effects without a reply")
        self.low["effect"] = max((row for row, _ in effects),
                                 default=self.low["effect"])

    def is_all_done(self):
        view = View(self.path)
        try:
            done, = view.one("SELECT count(*) FROM effect")
        finally:
            view.close()
        return done >= self.commands and super().is_all_done()

    def check_all(self):
        super().check_all()
        view = View(self.path)
        try:
            effects = sorted(row[0] for row in
                             view.rows("SELECT command FROM effect"))
        finally:
            view.close()
        if effects != sorted(f"c{i + 1}" for i in range(self.commands)):
            self.complain("effect", f"{len(effects)} of {self.commands}")
        self.farm.effects += len(effects)


class Relay(Site):
    """The shell writes; relay, shell or both are killed."""

    TABLES = 2
    TRANSACTION = WHOLE

    def start_all(self, work=True):
        super().start_all(work=False)
        self.wait_made()
        if work and "shell" not in self.victims:
            self.start("shell", ["stdbuf", "-oL", "sqlite3", "-batch", "-bail",
                                 self.path], stdin=subprocess.PIPE)
            self.write(".timeout 20000\nCREATE TABLE IF NOT EXISTS state("
                       "n INTEGER PRIMARY KEY, id BLOB);\n")

    def wait_made(self):
        def is_made():
            with contextlib.suppress(sqlite3.OperationalError):
                view = View(self.path)
                try:
                    return view.one("SELECT 1 FROM outbox_meta")
                finally:
                    view.close()
            return False
        rig.wait_for(is_made, "the relay makes its tables")

    def write(self, text):
        self.victims["shell"].stdin.write(text.encode())
        self.victims["shell"].stdin.flush()

    def feed(self):
        if "shell" not in self.victims:
            return
        pipe = self.victims["shell"].stdin
        if select.select([], [pipe], [], 0)[1]:
            self.write(self.TRANSACTION * self.random.randrange(1, 3))

    def choose(self):
        return self.random.choice((["relay"], ["relay"], ["shell"],
                                   ["relay", "shell"]))


class Command(Relay):
    """The same with the command, as it is installed."""

    OF_MQTT = ("uri", "client_id")

    def configure(self):
        path = os.path.join(self.folder, "relay.ini")
        words = [word.split("=", 1) for word in self.words()]
        with open(path, "w", encoding="utf-8") as file:
            os.chmod(path, 0o600)
            print("[postbag]", f"db = {self.path}", *(
                f"{key} = {value}" for key, value in words
                if key not in self.OF_MQTT), "[mqtt]", *(
                f"{key} = {value}" for key, value in words
                if key in self.OF_MQTT), sep="\n", file=file)
        return path

    def start(self, name, command, **popen):
        if name == "relay":
            self.log_before = len(self.tail())
            command = [rig.COMMAND, "relay", "--config", self.configure()]
        super().start(name, command, **popen)

    def wait_ready(self):
        """What it says first, it says when it may be told to end."""
        rig.wait_for(lambda: len(self.tail()) > self.log_before,
                     "the relay is ready", STUCK_S)


class Farm:
    """The broker, what arrives, and the sites at work."""

    FEED_S = 0.005
    LIVES = 200  # of a site, after which another takes its place

    def __init__(self, case, kinds, count=6):
        self.begun = time.monotonic()
        self.case, self.random, self.folder = case, case.random, case.folder
        self.kinds, self.made, self.sites = kinds, 0, {}
        self.kills = self.messages = self.effects = self.again = 0
        self.finished = []
        self.broker = case.broker(lines=["log_type none"])
        self.client = mqtt5.Client(self.broker.port, "farm", take=self.take)
        case.addCleanup(self.client.close)
        for _ in range(count):
            self.add()

    def add(self):
        self.made += 1
        site = self.kinds[self.made % len(self.kinds)](self, self.made)
        self.case.addCleanup(site.clean_up)
        self.sites[site.name] = site
        return site

    def take(self, message):
        site = self.sites.get(message.properties.get("source"))
        if site:
            site.take(message)

    def pump(self, seconds):
        if select.select([self.client], [], [], seconds)[0]:
            self.client.read()

    def run(self, kills, is_over=lambda: False):
        """So many processes are killed, in all sites together."""
        for site in self.sites.values():
            site.draw()
        fed = 0
        while self.kills < kills and not is_over():
            self.pump(0.002)
            now = time.monotonic()
            is_fed = now - fed > self.FEED_S
            fed = now if is_fed else fed
            for site in list(self.sites.values()):
                if is_fed:
                    site.feed()
                if site.is_due(now):
                    self.kill(site)

    def kill(self, site):
        before = site.kills
        site.kill()
        self.kills += site.kills - before
        if self.random.random() < 0.8:
            site.look(just_killed=True)
        if site.lives % 50 == 0:
            site.verify()
        if site.lives >= self.LIVES:
            self.retire(site)
            site = self.add()
        site.draw()

    def retire(self, site):
        site.finish()
        del self.sites[site.name]
        self.finished.append(site)

    def finish(self):
        """What was complained about, and how often."""
        for site in self.sites.values():
            site.end_all()
        for site in list(self.sites.values()):
            self.retire(site)
        said = [(site.number, *complaint) for site in self.finished
                for complaint in site.complaints]
        for number, what, kill, text in said[:20]:
            print(f"  site {number}, kill {kill}: {what}: {text}", flush=True)
        return collections.Counter(what for _, what, _, _ in said)

    def tell(self, row):
        taken = time.monotonic() - self.begun
        print(f"  {self.kills} kills in {taken:.1f} s, {self.messages}"
              f" messages, {self.again} came again, {self.effects} effects; 0"
              f" lost, 95 % bound {3 / self.kills:.4f} per kill", flush=True)
        proof.say(row, self.kills, (rig.SEED, rig.SEED))
