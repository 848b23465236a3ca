# SPDX-License-Identifier: MIT
"""Two destinations, each with a broker and a relay of its own: the log waits
for the slower one, until it is detached or removed; the ledgers stay exact."""
import rig

COUNT = 700


class Destinations(rig.Case):
    def setUp(self):
        super().setUp()
        self.brokers = [self.broker(name=name) for name in ("main", "cloud")]
        self.subs = [self.subscriber(broker, name=broker.name + "-sub")
                     for broker in self.brokers]

    def start(self, number, *words):
        dest = self.brokers[number].name
        return self.gateway(self.brokers[number].uri(), f"dest={dest}",
                            "dest_from=oldest", f"client_id={dest}", *words,
                            name=f"relay-{dest}")

    def ledger(self, own, dest):
        """From the tables alone: put, and what became of it."""
        put, settled, delivered, dropped, passed, held, lost = own.rows(
            "SELECT (SELECT max(seq) FROM outbox), sum(settled_rows),"
            " sum(delivered), sum(dropped), sum(passed),"
            " (SELECT count(*) FROM outbox_held h WHERE h.dest = c.dest),"
            " (SELECT ifnull(sum(n), 0) FROM outbox_lost l"
            "   WHERE l.dest = c.dest) FROM outbox_cursor c WHERE dest = ?",
            dest)[0]
        self.assertEqual(settled, delivered + dropped + passed + held)
        self.assertEqual(dropped, lost)
        return {"put": put, "pending": put - settled, "delivered": delivered,
                "dropped": dropped, "passed": passed}

    def wait_ledger(self, own, dest, **wanted):
        def fits():
            now = self.ledger(own, dest)
            return all(now[name] == n for name, n in wanted.items())
        rig.wait_long(fits, f"{dest}: {wanted}",
                      lambda: self.ledger(own, dest))

    def both_deliver(self):
        """Ten messages by two relays; the database and the relays."""
        relays = [self.start(number) for number in (0, 1)]
        own = self.database()
        own.put_many(0, 10)
        for dest in ("main", "cloud"):
            self.wait_ledger(own, dest, delivered=10, pending=0)
        return own, relays

    def miss(self, own):
        """The broker of cloud is gone; main delivers, and the log stays."""
        self.brokers[1].kill()
        own.put_many(10, COUNT)
        own.run("INSERT INTO outbox(topic, payload, dest)"
                " VALUES ('t', 'cloud only', 'cloud')")
        self.wait_ledger(own, "main", delivered=10 + COUNT, passed=1)
        self.assertEqual(own.value("SELECT count(*) FROM outbox"
                                   " WHERE seq > 10"), COUNT + 1)
        self.wait_ledger(own, "cloud", delivered=10, pending=COUNT + 1)

    def detach(self, own, relay):
        """By a new relay of main that waits for a second; a second is short,
        so one without follows it."""
        self.assertEqual(relay.end(), 0)
        impatient = self.start(0, "detach_after_s=1")
        impatient.wait_err(f"destination cloud is detached: {COUNT + 1} mess")
        self.wait_ledger(own, "cloud", dropped=COUNT + 1, delivered=10,
                         pending=0)
        self.assertEqual(
            own.rows("SELECT dest, lo, hi, n, reason FROM outbox_lost"),
            [("cloud", 11, 11 + COUNT, COUNT + 1, "detached")])
        rig.wait_for(lambda: own.value("SELECT count(*) FROM outbox") < 300,
                     "the log is purged")
        self.assertEqual(impatient.end(), 0)
        self.start(0)

    def test_dead_one_is_detached_and_goes_on_behind_what_it_missed(self):
        own, relays = self.both_deliver()
        relays[1].kill()
        self.miss(own)
        self.detach(own, relays[0])
        self.start(1)
        self.assert_goes_on(own)

    def test_offline_relay_that_is_detached_begins_anew(self):
        """It runs all the time, and is fenced."""
        own, relays = self.both_deliver()
        self.miss(own)
        self.detach(own, relays[0])
        self.assert_goes_on(own)
        self.assertIn("took destination cloud over", relays[1].err())

    def assert_goes_on(self, own):
        self.brokers[1].restart()
        self.subs[1].wait_subscribed(2)
        own.put("again")
        for sub in self.subs:
            sub.wait_payload("again")
        self.assertEqual(self.subs[1].payloads(),
                         [str(i) for i in range(10)] + ["again"])
        self.wait_ledger(own, "cloud", delivered=11, dropped=COUNT + 1,
                         pending=0)
        self.wait_ledger(own, "main", delivered=11 + COUNT, pending=0)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
