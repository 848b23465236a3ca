# SPDX-License-Identifier: MIT
"""What must hold at a site of killfarm.py.

After a kill (now and then only after the next one, so that a process meets
what the other one left) a reader that writes nothing compares:

  told       what was told to be committed is there
  torn       each row of state has its message, each effect its reply
  phantom    what arrived is committed, under its id
  lost       what the cursor has passed has arrived
  order      the first arrivals of a key ascend
  again      none came again that was settled when its relay was killed
  effect     a command has one effect

Who is broken on purpose adds to complaints, as everybody does; the test says
whose must be empty.
"""
import collections
import os
import sqlite3

# what the cursor's row reserves at most above it
RESERVED = 2 * 4 * 64


class View:
    """One snapshot of a database, by a reader that leaves it as it was."""

    def __init__(self, path):
        # closing a connection that may write would clear the WAL away
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30,
                                  isolation_level=None)
        self.db.execute("BEGIN")

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def one(self, sql, *values):
        return self.db.execute(sql, values).fetchone()

    def close(self):
        self.db.close()


class Checks:
    """Of one database; a Site adds path, folder, keeps and farm."""

    TABLES = 3

    def __init__(self):
        self.complaints = []  # (what, kills so far, text)
        self.kills = self.unseen = 0
        self.arrived = collections.Counter()
        self.fresh, self.firsts = [], {}
        # up to where all has been compared
        self.low = {"seq": 0, "n": 0, "effect": 0}
        self.waiting, self.may_repeat = set(), collections.Counter()
        self.told_at = self.last_told = 0

    # ---- what arrives -------------------------------------------------------

    def take(self, message):
        message_id = message.properties["id"].replace("-", "")
        self.arrived[message_id] += 1
        if self.arrived[message_id] > 1:
            return
        self.fresh.append((message.topic, message.payload, message_id))
        if message.topic == "gw/data":
            number = int(message.payload)
            if number < self.firsts.get(number % 4, 0):
                self.complain("order", f"{number} came late")
            self.firsts[number % 4] = number

    def complain(self, what, text):
        self.complaints.append((what, self.kills, text))

    # ---- what must hold -----------------------------------------------------

    def look(self, just_killed=False):
        if os.path.exists(self.path + "-journal") or \
                not os.path.exists(self.path):
            return  # killed before it was WAL; a reader may not roll back
        fresh, self.fresh = self.fresh, []
        view = View(self.path)
        try:
            if view.one("SELECT count(*) FROM sqlite_schema WHERE name IN"
                        " ('state', 'outbox_status', 'effect')")[0] < \
                    self.TABLES:
                self.fresh = fresh  # killed before it was made
                return
            cursor = view.one("SELECT acked, sent_hi FROM outbox_cursor"
                              " WHERE dest = 'main' AND lane = 0")
            held = {row[0].hex() for row in
                    view.rows("SELECT id FROM outbox_held")}
            self.compare_told(view)
            self.compare_rows(view)
            self.compare_fresh(view, fresh)
            self.compare_effects(view)
            settled = self.settled(view, cursor[0])
            self.farm.client.barrier()
            self.compare_settled(settled, held)
            self.compare_repeats(view, cursor, held, int(just_killed))
        finally:
            view.close()

    def compare_told(self, view):
        with open(os.path.join(self.folder, "said"), "rb") as file:
            file.seek(self.told_at)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self.told_at += whole
        for line in text[:whole].splitlines():
            if line.startswith(b"committed "):
                self.last_told = max(self.last_told, int(line.split()[1]))
        count, last = view.one("SELECT count(*), ifnull(max(n), 0) FROM state")
        if last < self.last_told or count != last:
            self.complain("told", f"{self.last_told} was told, {count} up to"
                          f" {last} are there")

    def replies(self, view):
        """How many rows of the log are not of state."""
        return 0

    def compare_rows(self, view):
        """Since the last time."""
        seq, n = self.low["seq"], self.low["n"]
        top = view.one("SELECT ifnull(max(seq), 0) FROM outbox")[0]
        rows = view.rows("SELECT CAST(payload AS INTEGER), id FROM outbox"
                         " WHERE seq > ? AND topic = 'gw/data'", seq)
        state = dict(view.rows("SELECT n, id FROM state WHERE n > ?", n))
        if any(state.get(number) != message_id for number, message_id in rows):
            self.complain("torn", "a message has no state")
        if self.keeps and len(rows) != len(state):
            self.complain("torn", f"{len(state)} of state, {len(rows)} put")
        total = view.one("SELECT count(*) FROM state")[0]
        replies = self.replies(view)
        if replies is not None and top != total + replies:
            self.complain("torn", f"{total} of state and {replies} replies,"
                          f" {top} put")
        self.low["seq"], self.low["n"] = top, max(state, default=n)

    def compare_fresh(self, view, fresh):
        numbers = [int(payload) for topic, payload, _ in fresh
                   if topic == "gw/data"]
        if not numbers:
            return
        known = dict(view.rows("SELECT n, id FROM state WHERE n BETWEEN ?"
                               " AND ?", min(numbers), max(numbers)))
        for topic, payload, message_id in fresh:
            if topic == "gw/data" and \
                    known.get(int(payload), b"").hex() != message_id:
                self.complain("phantom", f"{payload} as {message_id}")

    def compare_effects(self, view):
        """Only a handler has some."""

    def settled(self, view, acked):
        """The ids that the cursor has passed since the last time."""
        low, self.low["acked"] = self.low.get("acked", 0), acked
        if self.keeps:
            rows = view.rows("SELECT id FROM outbox WHERE seq > ?"
                             " AND seq <= ?", low, acked)
        else:  # purged ones, too: each row of state has one
            rows = view.rows("SELECT id FROM state WHERE n > ? AND n <= ?",
                             low, acked)
        return {row[0].hex() for row in rows}

    def compare_settled(self, settled, held):
        self.waiting |= settled
        missing = {i for i in self.waiting if i not in self.arrived} - held
        if missing:
            self.complain("lost", f"settled, but {len(missing)} never came")
        self.waiting &= held

    def compare_repeats(self, view, cursor, held, looked_at):
        """Each kill lets those come again that its relay may have sent and
        had not settled.  Of kills that were not looked at, those that were
        unsettled the time before."""
        before = self.low.get("repeat", 0)
        if cursor[1] - cursor[0] > RESERVED:
            self.complain("again", f"{cursor[1] - cursor[0]} are reserved")
        table, column = ("outbox", "seq") if self.keeps else ("state", "n")
        for low, high, times in ((cursor[0], cursor[1], looked_at),
                                 (before, self.low["seq"], self.unseen - looked_at)):
            if times > 0:
                for row in view.rows(f"SELECT id FROM {table} WHERE {column} >"
                                     f" ? AND {column} <= ?", low, high):
                    self.may_repeat[row[0].hex()] += times
        for message_id in held:
            self.may_repeat[message_id] += self.unseen
        for message_id, count in self.arrived.items():
            if count > 1 + self.may_repeat[message_id] and \
                    count > self.may_repeat[message_id] + \
                    self.times_put(view, message_id):
                self.complain("again", f"{message_id} came {count} times")
        self.low["repeat"], self.unseen = cursor[0], 0

    def times_put(self, view, message_id):
        return 1
