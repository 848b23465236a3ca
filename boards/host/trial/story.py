# SPDX-License-Identifier: MIT
"""What the field does to a gateway, in half a minute."""
import json
import time
import uuid

from stage import DEVICE, comes_true, wait_for
from verdict import Ledger
from wire import now_us

COMMANDS = 20


class Story:
    """Plays once; say(text) prints a line, random chooses the moments."""

    def __init__(self, stage, random, say):
        self.stage = stage
        self.random = random
        self.say = say
        self.kills = 0
        self.broken_us = []    # when something broke
        self.oldest_age_ms = 0
        self.commands = []
        self.once = []         # of these only one copy was sent
        self.status = None
        self.begun = self.said = time.monotonic()

    def play(self):
        self._calm()
        self._kill_in_traffic()
        self._cut_the_cable()
        self._stop_the_broker()
        self._kill_in_traffic()
        self._finish()

    # ---- acts --------------------------------------------------------------

    def _calm(self):
        self.act("the firmware starts; all is well")
        self.stage.start_firmware()
        self.stage.wait_for_subscription("host-in", f"{DEVICE}/cmd/")
        # No counter can be reset that was never read.
        wait_for("each sensor was read", lambda: len(self.stage.heard) > 10)
        self.send_first(4)
        self.watch(4)
        self.send_second()

    def _kill_in_traffic(self):
        self.send_first(3)
        self.watch(1 + self.random.random())
        self.kill("in mid-run")
        self.send_second()  # it is dead: the broker keeps them
        self.stage.start_firmware()
        self.watch(2)

    def _cut_the_cable(self):
        wire = self.stage.wire
        self.act("the cable breaks: first no answer comes through any more,"
                 " then all connections are reset")
        self.note_broken()
        wire.mute()
        self.watch(0.5)
        wire.cut()
        self.send_first(4)
        self.watch(2 + self.random.random())
        self.kill("while it is offline")
        self.stage.start_firmware()
        self.send_second()
        self.watch(2.5)
        self.act("the cable is mended")
        wire.mend()
        self.wait_for_drain(now_us())

    def _stop_the_broker(self):
        self.send_first(3)
        self.watch(1.5)
        self.send_second()
        self.act("the broker is stopped (SIGTERM; it saves its sessions)")
        self.note_broken()
        self.stage.stop_broker()
        self.watch(2 + self.random.random())
        self.kill("while the broker is down")
        self.stage.start_firmware()
        self.watch(2.5)
        self.act("the broker starts again, on the same port")
        mended = now_us()
        self.stage.start_broker()
        wait_for("the firmware sends again",
                 lambda: self.pubacks_after(mended))
        self.kill("while it sends what had to wait")
        self.stage.start_firmware()
        self.wait_for_drain(mended)

    def _finish(self):
        self.send_first(COMMANDS - 1 - len(self.commands))
        self.act("the last command asks for one reading a minute")
        self.send("set-interval", {"interval_ms": 60000})
        self.send_second()
        wait_for("all commands are done", self._commands_are_done)
        wait_for("all is delivered", self._nothing_waits)
        # What is not heard by then is lost, and the verdict says so.
        comes_true(lambda: set(self.stage.heard) >=
                   set(Ledger(self.stage.db).put_us))
        self.stage.stop_firmware()

    def _nothing_waits(self):
        self.look()
        return self.status["pending"] == 0

    def _commands_are_done(self):
        self.look()
        inbox = self.status["inbox"]
        return inbox["done"] + inbox["dead"] >= COMMANDS

    # ---- the firmware ------------------------------------------------------

    def kill(self, when):
        self.act(f"kill -9 {when}")
        self.note_broken()
        self.stage.kill_firmware()
        self.kills += 1

    # ---- commands ----------------------------------------------------------

    def send_first(self, count):
        for _ in range(count):
            if len(self.commands) % 4 == 3:
                self.send("reset-counter", {"counter": "network_received"})
            else:
                self.send("set-interval",
                          {"interval_ms": self.random.randint(8, 16)})

    def send(self, word, payload):
        command = {"id": str(uuid.uuid4()), "word": word,
                   "payload": json.dumps(payload)}
        self.stage.publish_command(len(self.commands), command)
        self.once.append((len(self.commands), command))
        self.commands.append(command)

    def send_second(self):
        for number, command in self.once:
            self.stage.publish_command(number, command)
        self.once = []

    # ---- waiting and telling -----------------------------------------------

    def note_broken(self):
        self.broken_us.append(now_us())

    def pubacks_after(self, since):
        with self.stage.wire.lock:
            return [us for us in self.stage.wire.puback_us.values()
                    if us > since]

    def look(self):
        self.status = self.stage.status() or self.status
        if self.status:
            self.oldest_age_ms = max(self.oldest_age_ms,
                                     self.status["oldest_age_ms"] or 0)
        if time.monotonic() - self.said >= 1:
            self.progress()

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(0.25)

    def wait_for_drain(self, since):
        def is_drained():
            self.look()
            return self.pubacks_after(since) and self.status["pending"] < 64
        wait_for("the backlog is gone", is_drained, 30)

    def stamp(self):
        return f"{time.monotonic() - self.begun:5.1f} s  "

    def act(self, text):
        self.say(f"{self.stamp()}-- {text}")

    def progress(self):
        self.said = time.monotonic()
        s = self.status
        if s is None:
            return
        heard = len(self.stage.heard)
        # pending: until the cursor is saved; put: also answers given again
        waiting = max(0, min(s["pending"], s["put"] - heard))
        self.say(f"{self.stamp()}committed {s['put']:5}   heard {heard:5}"
                 f"   waiting {waiting:4}"
                 f"   link {s['link']}")
