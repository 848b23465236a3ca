# SPDX-License-Identifier: MIT
"""Plain SQL, from any language, beside a relay in another process."""
import sqlite3
import subprocess
import time

import rig

MOST_S = 1.0  # from the end of the writing program to the subscriber


class PlainSql(rig.Case):
    def setUp(self):
        super().setUp()
        broker = self.broker()
        self.sub = self.subscriber(broker)
        gateway = self.gateway(broker.uri())
        gateway.wait_err("outbound link: connected")

    def assert_arrives(self, payload, written_at):
        self.sub.wait_payload(payload)
        took = time.monotonic() - written_at
        print(f"  {payload}: {took * 1000:.1f} ms", flush=True)
        self.assertLess(took, MOST_S)

    def test_sqlite3_shell_insert_arrives_within_a_second(self):
        for i in range(10):
            payload = f"x{i}"
            subprocess.run(
                ["sqlite3", self.db_path, "INSERT INTO outbox(topic,payload) "
                 f"VALUES('t','{payload}')"], check=True)
            self.assert_arrives(payload, time.monotonic())

    def test_commits_in_a_row_all_arrive_within_a_second(self):
        own = self.database()
        for i in range(15):
            for half in "ab":
                own.put(f"{i}{half}")
            self.assert_arrives(f"{i}b", time.monotonic())

    def test_python_commit_arrives_and_rollback_does_not(self):
        own = sqlite3.connect(self.db_path)
        own.execute("CREATE TABLE reading(value)")
        for i in range(5):
            for payload, end in ((f"kept{i}", own.commit),
                                 (f"dropped{i}", own.rollback)):
                own.execute("INSERT INTO reading VALUES (?)", (payload,))
                own.execute("INSERT INTO outbox(topic, payload)"
                            " VALUES ('t', ?)", (payload,))
                end()
            # rows leave in order, so what comes after is proof enough
            own.execute("INSERT INTO outbox(topic, payload)"
                        " VALUES ('t', ?)", (f"after{i}",))
            own.commit()
            self.assert_arrives(f"after{i}", time.monotonic())
        own_rows = [row[0] for row in own.execute("SELECT value FROM reading")]
        own.close()
        self.assertEqual(own_rows, [f"kept{i}" for i in range(5)])
        self.assertEqual(
            self.sub.payloads(),
            [f"{word}{i}" for i in range(5) for word in ("kept", "after")])

    def test_trigger_of_the_application_puts_with_its_cause(self):
        own = self.database()
        own.run("CREATE TABLE alarm(name TEXT)")
        own.run("CREATE TRIGGER alarm_out AFTER INSERT ON alarm BEGIN"
                " INSERT INTO outbox(topic, payload, priority)"
                " VALUES ('alarm/' || NEW.name, NEW.name, 1); END")
        own.run("INSERT INTO alarm VALUES ('fire')")
        self.assert_arrives("fire", time.monotonic())
        self.assertEqual(self.sub.messages()[-1].topic, "alarm/fire")

    def test_id_on_the_wire_is_the_row_s_default(self):
        own = self.database()
        own.run("BEGIN IMMEDIATE")
        own.put("y")
        expected = own.id_of("y")
        own.run("COMMIT")
        self.sub.wait_payload("y")
        self.assertEqual(self.sub.ids(), [expected])


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf", "sqlite3")
    rig.main()
