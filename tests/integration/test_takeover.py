# SPDX-License-Identifier: MIT
"""Two relays for one database: one sends, a silent one is replaced."""
import proof
import rig

TURNS = 60 if rig.PROVE else 6 if rig.FULL else 2
LEASE = ("lease_ms=1000", "ack_delay_ms=50")
OFFICE = "relay owns destination main, epoch "


class Takeover(rig.Case):
    def pair(self, uri):
        """The owner, and one that stands by."""
        first = self.gateway(uri, *LEASE, name="first")
        first.wait_err(OFFICE + "1")
        second = self.gateway(uri, *LEASE, name="second")
        return first, second

    def pause(self, own, process):
        """Stop it while it has no transaction open, or SQLite's write lock
        would stop with it."""
        own.run("BEGIN IMMEDIATE")
        process.pause()
        own.run("COMMIT")

    def state(self, own):
        """All that a relay writes."""
        return [own.rows(f"SELECT * FROM {table}") for table in
                ("outbox_dest", "outbox_cursor", "outbox_held", "outbox_acks",
                 "outbox_late", "outbox_lost")] + [own.rows("SELECT seq FROM outbox")]

    def test_T9_stopped_owner_is_replaced_and_then_marks_nothing(self):
        broker = self.fake_broker("hold=1")
        first, second = self.pair(broker.uri())
        first.wait_err("outbound link: connected")
        own = self.database()
        own.put_many(1, 10)
        broker.wait_log("< PUBLISH", 10)

        self.pause(own, first)
        # its PUBACKs now wait in its socket
        broker.tell("set hold=")
        second.wait_err(OFFICE + "2")
        own.put_many(11, 10)
        own.wait_settled()
        before = self.state(own)

        first.resume()
        first.wait_err("another relay took destination main over")
        self.assertEqual(self.state(own), before)
        self.assertEqual(own.counts()["delivered"], 20)
        self.assert_sound(own)
        proof.say("T9_real", 1)
        # the control: what a mark would have changed is looked at
        own.run("BEGIN IMMEDIATE")
        own.run("UPDATE outbox_cursor SET delivered = delivered + 1")
        noticed = self.state(own) != before
        own.run("ROLLBACK")
        self.assertTrue(noticed)
        proof.control("T9_real", "mark_of_the_old_owner", noticed, 1)

    def test_T9_owners_stopped_in_turn_lose_nothing_under_load(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        relays = self.pair(broker.uri())
        own = self.database()
        put = 0
        for turn in range(TURNS):
            owner, standby = relays
            for _ in range(self.random.randrange(1, 40)):
                own.put_many(put + 1, 5)
                put += 5
            self.pause(own, owner)
            own.put_many(put + 1, 50)
            put += 50
            standby.wait_err(OFFICE + str(turn + 2))
            owner.resume()
            owner.wait_err("another relay took destination main over",
                           turn // 2 + 1)
            relays = (standby, owner)
        counts = own.wait_settled()
        self.assertEqual((counts["put"], counts["delivered"]), (put, put))
        expected = {str(n) for n in range(1, put + 1)}
        rig.wait_for(lambda: expected <= set(sub.payloads()), "all arrive")
        self.assertEqual(set(sub.payloads()), expected)
        self.assertEqual(len(set(sub.ids())), put)
        self.assert_sound(own)
        proof.say("T9_real", TURNS, (rig.SEED, rig.SEED))

    def test_dead_owner_is_replaced_at_once(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        long = ("lease_ms=3600000",)
        first = self.gateway(broker.uri(), *long, name="first")
        first.wait_err(OFFICE + "1")
        second = self.gateway(broker.uri(), *long, name="second")
        first.kill()
        second.wait_err(OFFICE + "2", seconds=5)
        self.database().put("x")
        sub.wait_payload("x")

    def test_owner_that_ends_hands_over_at_once(self):
        broker = self.broker()
        first, second = self.pair(broker.uri())
        self.assertEqual(first.end(), 0)
        second.wait_err(OFFICE + "2", seconds=5)
        self.assertEqual(second.end(), 0)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
