# SPDX-License-Identifier: MIT
"""The first three of the ten failure tests on real parts, and three sentences
that everybody says of an outbox: each one a case of its own."""
import collections
import os
import sqlite3

import mqtt5
import proof
import rig

TRIALS = 300 if rig.PROVE else 40 if rig.FULL else 8


class Promises(rig.Case):
    def setUp(self):
        super().setUp()
        self.mosquitto = self.broker(lines=["log_type none"])
        self.arrived = collections.Counter()  # (id, payload)
        self.client = mqtt5.Client(self.mosquitto.port, "test",
                                   take=self.take)
        self.addCleanup(self.client.close)
        self.lives = 0

    def take(self, message):
        self.arrived[message.properties["id"].replace("-", ""),
                     message.payload] += 1

    def firmware(self, *words, uri=None):
        self.lives += 1
        return self.gateway(uri or self.mosquitto.uri(), "client_id=gw",
                            *words, name=f"life{self.lives}")

    def nowhere(self):
        return f"tcp://127.0.0.1:{rig.free_port()}"

    def state(self, own):
        """(id, payload) of each row of state."""
        return {(message_id.hex(), str(n)) for n, message_id in
                own.rows("SELECT n, id FROM state")}

    def relay_all(self, *words):
        """A life that ends in order when all is settled; what has arrived."""
        relay = self.firmware(*words)
        own = self.database()
        own.wait_settled()
        self.assertEqual(relay.end(), 0)
        own.connection.close()
        self.client.barrier()
        return set(self.arrived)

    def tables(self):
        """As an application has them, and no relay runs."""
        self.assertEqual(self.firmware(uri=self.nowhere()).end(), 0)
        return self.database()

    # ---- T1 -----------------------------------------------------------------

    def refuse(self, own, way):
        """One transaction that does not come to its end."""
        own.run("BEGIN IMMEDIATE")
        own.run("INSERT INTO state(n, id) SELECT ifnull(max(n), 0) + 1,"
                " randomblob(16) FROM state")
        own.put("never")
        if way == "rollback":
            own.run("ROLLBACK")
        elif way == "savepoint":
            own.run("ROLLBACK")
            own.run("BEGIN IMMEDIATE")
            own.run("SAVEPOINT s")
            own.put("never")
            own.run("ROLLBACK TO s")
            own.run("COMMIT")
        elif way == "constraint":
            with self.assertRaises(sqlite3.IntegrityError):
                own.run("INSERT OR ROLLBACK INTO state(n) SELECT max(n)"
                        " FROM state")
            self.assertFalse(own.connection.in_transaction)
        elif way == "guard":
            with self.assertRaises(sqlite3.IntegrityError):
                own.put("never", topic="a/#")
            own.run("ROLLBACK")
        else:
            own.connection.close()

    def test_T1_rollback_leaves_no_outbox_row(self):
        own = self.tables()
        ways = ("rollback", "savepoint", "constraint", "guard", "close")
        for trial in range(TRIALS):
            way = ways[trial % len(ways)]
            before = own.counts()["put"]
            self.refuse(own, way)
            own = self.database()
            self.assertEqual(own.counts()["put"], before, way)
            self.assertEqual(own.value("SELECT count(*) FROM state"), before)
            own.run("BEGIN IMMEDIATE")
            own.run("INSERT INTO state VALUES (?, randomblob(16))", before + 1)
            own.run("INSERT INTO outbox(topic, payload, id)"
                    " SELECT 't', CAST(n AS TEXT), id FROM state WHERE n = ?", before + 1)
            own.run("COMMIT")
        expected = self.state(own)
        self.assertEqual(self.relay_all(), expected)
        self.assertEqual(len(expected), TRIALS)
        proof.say("T1_real", TRIALS)

    # ---- T2 -----------------------------------------------------------------

    def commit_and_die(self, uri):
        """The last number that it told before it was killed."""
        firmware = self.firmware("work=4000000000", "gap_us=300",
                                 "reconnect_base_ms=10", uri=uri)
        firmware.wait_out("committed ", self.random.randint(1, 20))
        firmware.kill()
        return int(firmware.out().split("committed ")[-1].split()[0])

    def test_T2_crash_after_commit_loses_no_message(self):
        told = 0
        for _ in range(TRIALS):
            uri = self.random.choice((self.nowhere(), self.mosquitto.uri()))
            told = max(told, self.commit_and_die(uri))
        arrived = self.relay_all("reconnect_base_ms=10")
        self.assertEqual(arrived, self.state(self.database()))
        self.assertLessEqual({str(n + 1) for n in range(told)},
                             {payload for _, payload in arrived})
        proof.say("T2_real", TRIALS, (rig.SEED, rig.SEED))

    # ---- T3 -----------------------------------------------------------------

    def contest(self, turn):
        """Two relays; who owns the destination is killed or ended while both
        have work."""
        owner_says = "relay owns destination main, epoch"
        relays = [self.firmware("ack_delay_ms=20", "client_id=gw%d" % i)
                  for i in (1, 2)]
        rig.wait_for(lambda: any(owner_says in r.err() for r in relays),
                     "one of them owns it")
        owner, other = sorted(relays, key=lambda r: owner_says not in r.err())
        self.assertNotIn(owner_says, other.err())
        own = self.database()
        first = own.counts()["put"] + 1
        own.put_many(first, 200)
        if turn % 2:
            owner.kill()
        else:
            self.assertEqual(owner.end(), 0)
        own.put_many(first + 200, 20)
        other.wait_err(owner_says)
        own.wait_settled()
        self.assertEqual(other.end(), 0)
        own.connection.close()

    def test_T3_of_two_relays_one_sends_and_nothing_is_skipped(self):
        trials = max(3, TRIALS // 4)
        for turn in range(trials):
            self.contest(turn)
            self.client.barrier()
        put = self.database().counts()["put"]
        self.assertEqual({payload for _, payload in self.arrived},
                         {str(n + 1) for n in range(put)})
        self.assertEqual(len(self.arrived), put)
        # only those come again that an owner had in flight when it was killed
        again = sum(self.arrived.values()) - put
        self.assertLessEqual(again, trials // 2 * 4 * 64)
        print(f"  {trials} takeovers, {put} messages, {again} came again",
              flush=True)
        proof.say("T3_real", trials)

    # ---- what everybody says ------------------------------------------------

    def test_commit_without_a_relay_leaves_the_row_unsent(self):
        own = self.tables()
        for n in range(20):
            own.put(str(n))
        self.assertEqual(own.rows("SELECT DISTINCT state, published_at FROM"
                                  " outbox_status"), [("pending", None)])
        self.client.barrier()
        self.assertEqual(self.arrived, {})
        self.assertEqual(own.value("SELECT count(*) FROM outbox"), 20)

    def test_relay_gives_the_broker_one_logical_event_per_id(self):
        own = self.tables()
        own.put_many(1, 1000)
        ids = {(message_id.hex(), payload) for message_id, payload in
               own.rows("SELECT id, CAST(payload AS TEXT) FROM outbox")}
        self.assertEqual(self.relay_all(), ids)
        self.assertEqual(sum(self.arrived.values()), 1000)

    def test_crash_before_the_mark_sends_again_without_a_second_effect(self):
        effects = sqlite3.connect(os.path.join(self.folder, "consumer.db"))
        self.addCleanup(effects.close)
        effects.execute("CREATE TABLE seen(id TEXT PRIMARY KEY)")
        effects.execute("CREATE TABLE effect(payload TEXT)")
        # nothing is marked before a minute is over
        relay = self.firmware("ack_delay_ms=60000", "ack_batch=1000")
        own = self.database()
        own.put_many(1, 50)
        rig.wait_for(lambda: self.client.barrier() or len(self.arrived) == 50,
                     "all are published")
        relay.kill()
        self.assertEqual(own.counts()["settled"], 0)
        own.connection.close()
        self.relay_all()
        self.assertGreater(sum(self.arrived.values()), 50)
        for (message_id, payload), times in self.arrived.items():
            for _ in range(times):
                with effects:
                    if effects.execute("INSERT OR IGNORE INTO seen VALUES (?)",
                                       (message_id,)).rowcount:
                        effects.execute("INSERT INTO effect VALUES (?)",
                                        (payload,))
        self.assertEqual(sorted(int(row[0]) for row in effects.execute(
            "SELECT payload FROM effect")), list(range(1, 51)))


if __name__ == "__main__":
    rig.need("mosquitto")
    rig.main()
