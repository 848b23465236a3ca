# SPDX-License-Identifier: MIT
"""A broker that refuses a topic: that message is set aside, the others flow,
and after the repair it leaves under the same id."""
import os
import signal

import rig


class Refusals(rig.Case):
    def start(self, *lines):
        self.acl = os.path.join(self.folder, "acl")
        self.allow("open/#")
        self.link = self.broker(lines=[f"acl_file {self.acl}", *lines])
        self.sub = self.subscriber(self.link)
        self.relay = self.gateway(
            self.link.uri(), "retry_base_ms=10", "retry_cap_ms=100",
            "max_attempts=1000000")
        self.own = self.database()
        for n in range(3):
            self.put("closed/1", f"bad{n}", "k")
            self.put("open/1", f"good{n}")
        self.put("open/1", "behind", "k")
        self.put("open/1", "beside", "j")

    def allow(self, *filters):
        with open(self.acl, "w", encoding="utf-8") as file:
            file.writelines(f"topic readwrite {f}\n" for f in filters)

    def repair(self):
        self.allow("open/#", "closed/#")
        self.link.signal(signal.SIGHUP)
        self.link.wait_err("Reloading config")

    def put(self, topic, payload, key=None):
        self.own.run("INSERT INTO outbox(topic, payload, key)"
                     " VALUES (?, ?, ?)", topic, payload, key)

    def held(self):
        return self.own.rows("SELECT payload, state, attempts, error FROM"
                             " outbox_held ORDER BY seq")

    def check(self):
        for payload in ("good0", "good1", "good2", "beside"):
            self.sub.wait_payload(payload)
        rig.wait_for(lambda: [row[2] >= 3 for row in self.held()]
                     == [True, False, False, False], "it is tried again")
        held = self.held()
        self.assertEqual([row[0] for row in held],
                         ["bad0", "bad1", "bad2", "behind"])
        self.assertEqual([row[1] for row in held],
                         ["retry", "behind", "behind", "behind"])
        self.assertIn("0x87", held[0][3])
        expected = [self.own.id_of(row[0]) for row in held]
        self.assertNotIn("behind", self.sub.payloads())

        self.repair()
        self.sub.wait_payload("behind")
        by_key = {m.id: m.payload for m in self.sub.messages()
                  if m.property("partitionkey") == "k"}
        self.assertEqual(list(by_key.values()),
                         ["bad0", "bad1", "bad2", "behind"])
        self.assertEqual(list(by_key), expected)
        rig.wait_for(lambda: self.held() == [], "none is held")
        self.assert_sound(self.own)

    def test_refused_is_held_with_its_key_and_leaves_after_the_repair(self):
        self.start()
        self.check()
        self.assertEqual(
            self.relay.err().count("outbound link: connected"), 1)

    def test_broker_that_hangs_up_after_a_refusal_changes_nothing(self):
        # a fault of mosquitto 2.0.11 with this setting
        self.start("max_queued_messages 0")
        self.check()


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
