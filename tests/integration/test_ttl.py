# SPDX-License-Identifier: MIT
"""What is too old when the broker comes back does not arrive, whoever put it;
while the broker is away it makes room."""
import sqlite3
import subprocess

import rig

LIMIT = 10


class Ttl(rig.Case):
    def put(self, own, payload, ttl_ms):
        """Through the library, and by plain SQL."""
        subprocess.run([rig.COMMAND, "put", self.db_path, "t", "-m",
                        f"c-{payload}", "--ttl", str(ttl_ms)], check=True,
                       stdout=subprocess.DEVNULL, timeout=rig.WAIT_S)
        own.run("INSERT INTO outbox(topic, payload, ttl_ms)"
                " VALUES ('t', ?1, ?2)", f"sql-{payload}", ttl_ms)

    @staticmethod
    def wait_dropped(own, count):
        rig.wait_for(lambda: own.rows(
            "SELECT reason, sum(n) FROM outbox_lost GROUP BY reason")
                     == [("ttl", count)], f"{count} to be dropped")

    def test_what_is_too_old_does_not_arrive(self):
        broker = self.broker()
        sub = self.subscriber(broker)
        gateway = self.gateway(broker.uri())
        own = self.database()
        self.put(own, "in time", 60000)
        sub.wait_payload("sql-in time")
        own.wait_settled()
        broker.end()
        gateway.wait_err("no connection")
        self.put(own, "old", 500)
        self.wait_dropped(own, 2)
        own.put("for ever")
        self.put(own, "old, behind it", 500)
        self.put(own, "young", 60000)
        gateway.kill()
        self.gateway(broker.uri(), name="second")
        rig.wait_for(lambda: own.value(
            "SELECT (SELECT max(seq) FROM outbox_seen)"
            " = (SELECT max(seq) FROM outbox)"), "all to be seen")
        broker.restart()
        again = self.subscriber(broker, name="again")
        again.wait_payload("sql-young")
        own.wait_settled()
        self.wait_dropped(own, 4)
        self.assertEqual(again.payloads(),
                         ["for ever", "c-young", "sql-young"])
        self.assert_sound(own)

    def test_what_is_too_old_makes_room_while_the_broker_is_away(self):
        self.gateway(f"tcp://127.0.0.1:{rig.free_port()}",
                     f"max_rows={LIMIT + 1}")  # one is for urgent ones
        own = self.database()
        for _ in range(LIMIT):
            own.run("INSERT INTO outbox(topic, payload, ttl_ms)"
                    " VALUES ('t', 'old', 1500)")
        with self.assertRaisesRegex(sqlite3.IntegrityError, "outbox is full"):
            own.put("no room")
        self.wait_dropped(own, LIMIT)
        for _ in range(LIMIT):
            own.put("room")
        self.assert_sound(own)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
