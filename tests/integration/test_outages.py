# SPDX-License-Identifier: MIT
"""A broker that does what mosquitto would not do on demand."""
import rig


class ScriptedBroker(rig.Case):
    def test_cut_connections_charge_no_message(self):
        broker = self.fake_broker("cutafter=7")
        relay = self.gateway(broker.uri(), "reconnect_cap_ms=100")
        own = self.database()
        own.put_many(1, 50)
        relay.wait_err("next try in", 8)
        broker.tell("set cutafter=")
        counts = own.wait_settled()
        self.assertEqual((counts["delivered"], counts["held"]), (50, 0))
        self.assert_sound(own)

    def test_short_receive_maximum_is_kept(self):
        broker = self.fake_broker("recvmax=3", "hold=1")
        self.gateway(broker.uri())
        own = self.database()
        own.put_many(1, 20)
        # the bulk lane leaves one of the three to urgent messages
        broker.wait_log("< PUBLISH", 2)
        own.run("INSERT INTO outbox(topic, payload, priority)"
                " VALUES ('t', 'alarm', 3)")
        broker.wait_log("< PUBLISH", 3)
        own.put_many(21, 20)
        rig.wait_for(lambda: self.live_state().get("put_seq") == "41",
                     "the relay sees the others, too")
        self.assertEqual(broker.log().count("< PUBLISH"), 3)
        broker.tell("set hold=")
        self.assertEqual(own.wait_settled()["delivered"], 41)


if __name__ == "__main__":
    rig.main()
