# SPDX-License-Identifier: MIT
"""The firmware is killed at its n-th write to a file, its n-th fdatasync, its
n-th packet ..., for n = 1, 2, ... until it comes to its end: from an empty
folder over tables, commits, messages and commands to an orderly end.  Then
another one goes on, and killfarm.py says what must hold."""
import os
import signal
import subprocess
import time

import killfarm
import proof
import rig

KILLPOINT = os.environ.get("POSTBAG_KILLPOINT")
CALLS = ("fdatasync", "pwrite64", "pwrite64:half", "ftruncate64", "unlink",
         "rename", "send", "send:half", "recv")
# every so many n is tried, from a random one on
STEP = 1 if rig.PROVE else 24 if rig.FULL else 60
COMMITS, COMMANDS = 4, 2
SHELL_TABLE = ("CREATE TABLE IF NOT EXISTS"
               " state(n INTEGER PRIMARY KEY, id BLOB);\n")


class Victim(killfarm.Handler):
    """One life that may be cut short, and one that is not."""

    def arm(self, call, n):
        kind, _, half = call.partition(":")
        self.point = f"{kind}:{n}{':' + half if half else ''}"
        self.topics = {"gw/data": 0, "gw/reply": 0}

    def words(self):
        return [*super().words(), f"run_dir={self.folder}",
                "ack_delay_ms=20"]

    def work(self):
        return [f"work={COMMITS}"]

    def start(self, name, command, **popen):
        armed = {"LD_PRELOAD": KILLPOINT, "KILLPOINT": self.point} \
            if self.lives == 1 else {}
        # env, so that it is not setpriv that is killed
        super().start(name, ["env", *(f"{k}={v}" for k, v in armed.items()),
                             *command], **popen)

    def take(self, message):
        super().take(message)
        self.topics[message.topic] += 1

    def feed(self):
        if not self.commands and "inbound link: subscribed" in self.tail():
            for n in (1, 2, 2):
                self.farm.client.publish(
                    self.topic, f'{{"id":"c{n}","source":"cloud"}}',
                    "gw/reply")
            self.commands = COMMANDS

    def has_worked(self):
        return self.topics["gw/data"] >= COMMITS and \
            self.topics["gw/reply"] >= COMMANDS

    def live(self):
        """Was it killed?"""
        self.start_all()
        victim, is_told = self.victims["relay"], False
        end = time.monotonic() + killfarm.STUCK_S
        while victim.poll() is None:
            self.farm.pump(0.002)
            self.feed()
            if self.has_worked() and not is_told:
                victim.send_signal(signal.SIGTERM)
                is_told = True
            if time.monotonic() > end:
                raise AssertionError(f"at {self.point}: {self.tail()}")
        del self.victims["relay"]
        if victim.returncode not in (0, -9):
            raise AssertionError(f"at {self.point}: {victim.returncode}"
                                 f" {self.tail()}")
        self.kills = self.unseen = int(victim.returncode == -9)
        return self.kills == 1


class Shell(killfarm.Relay):
    """The sqlite3 shell puts a few rows, beside no relay, and is killed at a
    write of its own, as often as it comes to one."""

    def run(self, n):
        """Was it killed?"""
        self.start_all(work=False)
        self.end_all()
        # what it says would be lost with it
        self.start("shell", [
            "env", f"LD_PRELOAD={KILLPOINT}", f"KILLPOINT=pwrite64:{n}",
            "stdbuf", "-oL", "sqlite3", "-batch", "-bail", self.path],
            stdin=subprocess.PIPE)
        shell = self.victims.pop("shell")
        shell.communicate((SHELL_TABLE + 3 * self.TRANSACTION).encode())
        if shell.returncode not in (0, -9):
            raise AssertionError(self.tail())
        self.kills = self.unseen = int(shell.returncode == -9)
        return self.kills == 1


class TornShell(Shell):
    TRANSACTION = killfarm.TORN


class Syscalls(rig.Case):
    def at(self, farm, call, n):
        farm.made += 1
        site = Victim(farm, farm.made)
        site.arm(call, n)
        self.addCleanup(site.clean_up)
        farm.sites[site.name] = site
        was_killed = site.live()
        if os.path.exists(site.path):
            site.look(just_killed=was_killed)
        try:
            farm.retire(site)
        except AssertionError as error:
            raise AssertionError(f"killed at {site.point}") from error
        if site.complaints:
            print(f"  killed at {site.point}:", flush=True)
        return was_killed

    def test_killed_at_each_call_keeps_all_promises(self):
        farm = killfarm.Farm(self, (), 0)
        counts = {}
        for call in CALLS:
            n = first = self.random.randint(1, min(STEP, 4))
            while self.at(farm, call, n):
                counts[call] = counts.get(call, 0) + 1
                n += STEP if n > first or STEP < 10 else self.random.randint(
                    STEP // 2, STEP)
        self.assertEqual(farm.finish(), {})
        print(" ", ", ".join(f"{n} at {call}" for call, n in counts.items()),
              flush=True)
        for call in ("fdatasync", "pwrite64", "send", "recv"):
            self.assertIn(call, counts)
        proof.say("F14_syscall", sum(counts.values()),
                  (0, 0) if STEP == 1 else (rig.SEED, rig.SEED))

    def write_by_write(self, kind):
        """(kills, those after which something was torn)"""
        farm = killfarm.Farm(self, (), 0)
        kills = torn = 0
        for n in range(1, 10000, 1 if rig.FULL else 3):
            farm.made += 1
            site = kind(farm, farm.made)
            self.addCleanup(site.clean_up)
            if not site.run(n):
                break
            site.look(just_killed=True)
            kills += 1
            torn += any(what == "torn" for what, _, _ in site.complaints)
        return kills, torn

    def test_writer_in_plain_sql_killed_at_each_write_is_whole(self):
        kills, torn = self.write_by_write(Shell)
        self.assertGreater(kills, 3)
        self.assertEqual(torn, 0)
        proof.say("F14_syscall", kills)

    def test_writer_of_two_transactions_is_noticed(self):
        kills, torn = self.write_by_write(TornShell)
        proof.control("F14_syscall", "two_transactions", torn, kills)
        self.assertGreater(torn, 0)


if __name__ == "__main__":
    rig.need("mosquitto", "setpriv", "sqlite3", "stdbuf")
    rig.main()
