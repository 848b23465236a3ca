# SPDX-License-Identifier: MIT
"""kill -9 as often as the machine permits: a relay of its own, the sqlite3
shell that puts beside it, or both.  killfarm.py says what must hold; here are
also its controls: whoever breaks that on purpose is noticed."""
import sqlite3

import killfarm
import proof
import rig

KILLS = 6000 if rig.PROVE else 150 if rig.FULL else 25
# of a control, until it is noticed
MOST = 300


class TornWriter(killfarm.Relay):
    """Commits its state first and its message then."""

    TRANSACTION = killfarm.TORN

    def choose(self):
        return ["shell"]


class Forged(killfarm.Relay):
    """After each kill somebody changes the cursor; subclasses say how."""

    SQL = None

    def kill(self):
        super().kill()
        self.clean_up()
        db = sqlite3.connect(self.path, timeout=30)
        with db:
            db.execute(self.SQL)
        db.close()
        self.look(just_killed=True)


class EarlyMark(Forged):
    """As a relay that marks before the PUBACK: it passes what is put, while
    the network is away."""

    SQL = ("UPDATE outbox_cursor SET acked = (SELECT max(seq) FROM outbox),"
           " sent_hi = (SELECT max(seq) FROM outbox) WHERE lane = 0")

    def words(self):
        return [word if not word.startswith("uri=") else
                f"uri=tcp://127.0.0.1:{rig.free_port()}"
                for word in super().words()]

    def draw(self):
        super().draw()
        self.gate = ("told", *self.gate[1:])


class NoMark(Forged):
    """As a relay that forgets what was acknowledged."""

    SQL = "UPDATE outbox_cursor SET acked = 0, sent_hi = 0 WHERE lane = 0"

    def __init__(self, farm, number):
        super().__init__(farm, number)
        self.keeps = True


class Sigkill(rig.Case):
    def test_relay_and_writer_killed_anywhere_keep_all_promises(self):
        farm = killfarm.Farm(self, (killfarm.Relay, killfarm.Command))
        farm.run(KILLS)
        self.assertEqual(farm.finish(), {})
        self.assertGreater(farm.messages, 0)
        farm.tell("F14_sigkill")

    def notice(self, kind, name, what):
        farm = killfarm.Farm(self, (kind,), 2)

        def hits():
            """The kills after which it was complained."""
            return len({(site.number, kill) for site in farm.sites.values()
                        for complaint, kill, _ in site.complaints
                        if complaint == what})
        farm.run(MOST, hits)
        proof.control("F14_sigkill", name, hits(), farm.kills)
        self.assertGreater(hits(), 0)

    def test_writer_of_two_transactions_is_noticed(self):
        self.notice(TornWriter, "two_transactions", "torn")

    def test_mark_before_the_puback_is_noticed(self):
        self.notice(EarlyMark, "early_mark", "lost")

    def test_cursor_that_goes_back_is_noticed(self):
        self.notice(NoMark, "no_mark", "again")


if __name__ == "__main__":
    rig.need("mosquitto", "setpriv", "sqlite3", "stdbuf")
    rig.main()
