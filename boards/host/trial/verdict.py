# SPDX-License-Identifier: MIT
"""What came out: the firmware's own ledger against what was heard, the effects
against the commands, and the numbers of the run."""
import sqlite3
import struct
import uuid


class Ledger:
    """What the firmware committed, read when it has ended."""

    def __init__(self, path):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        rows = db.execute("SELECT id, kind, put_us FROM ledger").fetchall()
        self.put_us = {str(uuid.UUID(bytes=i)): us for i, _, us in rows}
        self.rows = len(rows)
        self.kinds = {kind: sum(k == kind for _, k, _ in rows)
                      for kind in ("reading", "alarm", "reply")}
        one = lambda sql: db.execute(sql).fetchone()[0]
        # Each reading moved its sensor's version, each alarm its count.
        self.state_changes = one("SELECT sum(version + alarms) FROM sensor")
        self.queued = one("SELECT max(seq) FROM outbox")
        self.strange = one("SELECT count(*) FROM outbox WHERE id NOT IN"
                           " (SELECT id FROM ledger)")
        self.effects = [r[0] for r in db.execute("SELECT command FROM effect")]
        self.copies = one("SELECT sum(seen) FROM inbox")
        # A command that comes again after it is done is answered again, with
        # a row that the firmware does not put itself.
        self.most_repeated = one("SELECT sum(seen - 1) FROM inbox")
        db.close()


def out_of_order(heard_first):
    """How many messages were heard after a later one of their key."""
    last, wrong = {}, 0
    for _, message in heard_first:
        p = message["properties"]["user-properties"]
        if "partitionkey" not in p:
            continue
        version = int(p["keyversion"])
        wrong += version <= last.get(p["partitionkey"], 0)
        last[p["partitionkey"]] = max(version, last.get(p["partitionkey"], 0))
    return wrong


def outages(put_us, puback_us, broken_us):
    """(since, until) in us: from when something broke until all is
    acknowledged that was put before the next PUBACK."""
    for since in broken_us:
        first = min((t for t in puback_us.values() if t > since),
                    default=since)
        yield since, max(
            (t for i, t in puback_us.items() if put_us.get(i, first) < first),
            default=first)


def undisturbed(put_us, puback_us, broken_us):
    """Put to PUBACK in us, of the messages that met no outage."""
    spans = list(outages(put_us, puback_us, broken_us))
    return [puback_us[i] - put for i, put in put_us.items()
            if i in puback_us and not any(
                put < until and puback_us[i] > since for since, until in spans)]


def percentile(values, percent):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def half_and_worst(values_us):
    if not values_us:
        return "none"
    return (f"{percentile(values_us, 50) / 1000:.1f} / "
            f"{percentile(values_us, 99) / 1000:.1f} ms")


def read_commit_us(text):
    """The firmware's lines "<sensor> <us>"; a kill may cut the last short."""
    words = [line.split() for line in text.splitlines(keepends=True)
             if line.endswith("\n")]
    return [int(w[1]) for w in words if len(w) == 2 and w[1].isdigit()]


class Verdict:
    def __init__(self, stage, story):
        self.stage = stage
        self.story = story
        ledger = self.ledger = Ledger(stage.db)
        committed = set(ledger.put_us)
        sent = {c["id"] for c in story.commands}
        replies = {m["properties"].get("correlation-data")
                   for _, m in stage.heard_first
                   if m["topic"].endswith("/res")}
        # Must be 0, each.
        self.lost = len(committed - set(stage.heard))
        self.ghosts = len(set(stage.heard) - committed)
        repeated = ledger.queued - ledger.rows
        self.halves = (max(-repeated, repeated - ledger.most_repeated, 0) +
                       ledger.strange +
                       abs(ledger.state_changes - ledger.kinds["reading"] -
                           ledger.kinds["alarm"]))
        self.disorder = out_of_order(stage.heard_first)
        self.no_effect = len(sent - set(ledger.effects))
        self.doubled = len(ledger.effects) - len(set(ledger.effects))
        self.no_reply = len({str(n) for n in range(len(sent))} - replies)

    def is_good(self):
        return not (self.lost or self.ghosts or self.halves or self.disorder
                    or self.no_effect or self.doubled or self.no_reply)

    def lines(self):
        """(name, number, remark) of the table; a lone name is a heading."""
        yield from self._messages()
        yield from self._commands()
        yield from self._times()
        yield from self._disk()

    def _messages(self):
        wire, kinds = self.stage.wire, self.ledger.kinds
        yield ("messages",)
        yield ("rows committed", self.ledger.rows,
               f"{kinds['reading']} readings, {kinds['alarm']} alarms, "
               f"{kinds['reply']} replies")
        yield ("delivered distinct", len(self.stage.heard), "")
        yield ("duplicates on the wire", wire.publishes - len(wire.ids),
               "sent again after an outage or a kill, or a command that "
               "came again, with the same id")
        yield ("lost", self.lost, "committed but never heard")
        yield ("heard, never committed", self.ghosts, "")
        yield ("state without message", self.halves, "or the other way round")
        yield ("out of order in a key", self.disorder, "")

    def _commands(self):
        yield ("commands",)
        yield ("commands sent", len(self.story.commands),
               f"each twice; {self.ledger.copies} copies were stored or "
               "recognised")
        yield ("effects", len(self.ledger.effects),
               f"{self.doubled} doubled, {self.no_effect} missing")
        yield ("answered", len(self.story.commands) - self.no_reply, "")

    def _times(self):
        commits = read_commit_us(self.stage.text("commits.txt"))
        pubacks = undisturbed(self.ledger.put_us, self.stage.wire.puback_us,
                              self.story.broken_us)
        yield ("times",)
        yield ("oldest age in an outage",
               f"{self.story.oldest_age_ms / 1000:.1f} s", "")
        yield ("commit, p50 / p99", half_and_worst(commits),
               f"{len(commits)} transactions: begin to on disk")
        yield ("put to PUBACK, p50 / p99", half_and_worst(pubacks),
               f"{len(pubacks)} messages that met no outage")

    def _disk(self):
        with open(self.stage.path("io.counts"), "rb") as f:
            own_syncs, _, own_bytes, syncs, _, size = struct.unpack("<6Q",
                                                                    f.read())
        n = self.ledger.rows
        yield ("disk",)
        yield ("fsyncs per message", f"{(own_syncs + syncs) / n:.2f}",
               f"{own_syncs / n:.2f} by the firmware's commits, "
               f"{syncs / n:.2f} by relay and inbox")
        yield ("bytes per message", f"{(own_bytes + size) / n:.0f}",
               f"{own_bytes / n:.0f} state, message and the demo's ledger, "
               f"{size / n:.0f} relay, inbox, checkpoints")
