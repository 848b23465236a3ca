# SPDX-License-Identifier: MIT
"""Commands from mosquitto: stored before their PUBACK, answered, kept while
the firmware is away."""
import rig


class Commands(rig.Case):
    def setUp(self):
        super().setUp()
        self.link = self.broker()
        self.sub = self.subscriber(self.link, topic="reply/#")
        self.relay = self.gateway(self.link.uri(), "commands=cmd/#",
                                  "reply_topics=reply/#")
        self.link.wait_err("Sending SUBACK to gateway-in\n")
        self.own = self.database()

    def command(self, name, *properties):
        self.publish(self.link, "cmd/1", f"do {name}", "-D", "publish",
                     "user-property", "id", name, *properties)

    def effects(self):
        return [row[0] for row in
                self.own.rows("SELECT command FROM effect ORDER BY rowid")]

    def wait_effects(self, *names):
        rig.wait_for(lambda: self.effects() == list(names),
                     f"the effects are {names}")

    def test_reply_has_correlation_data_and_the_command_s_id(self):
        self.command("a", "-D", "publish", "response-topic", "reply/x", "-D",
                     "publish", "correlation-data", "c-17")
        self.sub.wait_payload("a")
        reply = self.sub.messages()[0]
        self.assertEqual(
            (reply.topic, reply.correlation, reply.property("causationid")),
            ("reply/x", "c-17", "a"))

    def test_done_command_is_answered_again_after_a_restart(self):
        again = ("-D", "publish", "response-topic", "reply/x", "-D",
                 "publish", "correlation-data")
        self.command("a", *again, "c-1")
        self.sub.wait_payload("a")
        self.assertEqual(self.relay.end(), 0)
        self.relay = self.gateway(self.link.uri(), "commands=cmd/#",
                                  "reply_topics=reply/#")
        self.command("a", *again, "c-2")
        rig.wait_for(lambda: len(self.sub.messages()) == 2, "two replies")
        first, second = self.sub.messages()
        self.assertEqual((second.topic, second.correlation),
                         ("reply/x", "c-2"))
        self.assertEqual((second.payload, second.property("id")),
                         (first.payload, first.property("id")))
        self.assertEqual(self.effects(), ["a"])

    def test_sender_of_a_dead_command_is_told_if_asked_for(self):
        self.assertEqual(self.relay.end(), 0)
        self.relay = self.gateway(self.link.uri(), "commands=none",
                                  "failing=cmd/#", "reply_topics=reply/#",
                                  "reply_dead=1", "max_attempts=1")
        self.publish(self.link, "cmd/bad", "do a", "-D", "publish",
                     "user-property", "id", "a", "-D", "publish",
                     "response-topic", "reply/x", "-D", "publish",
                     "correlation-data", "c-1")
        rig.wait_for(lambda: len(self.sub.messages()) == 1, "a reply")
        reply = self.sub.messages()[0]
        self.assertEqual(
            (reply.topic, reply.payload, reply.correlation,
             reply.property("causationid"), reply.property("status")),
            ("reply/x", "", "c-1", "a", "failed"))
        self.assertEqual(self.own.rows("SELECT state FROM inbox"),
                         [("dead",)])

    def test_restarted_firmware_gets_what_came_meanwhile(self):
        self.assertEqual(self.relay.end(), 0)
        self.command("a")
        self.relay = self.gateway(self.link.uri(), "commands=cmd/#")
        self.wait_effects("a")

    def test_subscriptions_come_back_when_the_session_is_gone(self):
        """mosquitto without persistence forgets all when it ends."""
        self.link.restart()
        self.link.wait_err("Sending SUBACK to gateway-in\n", 2)
        self.command("a")
        self.wait_effects("a")
        self.assertNotIn("session kept", self.relay.err())

    def test_locked_database_refuses_the_command_and_gets_it_again(self):
        """No PUBACK while it cannot be stored; and the messages that wait
        leave afterwards, on their own connection."""
        self.own.run("BEGIN IMMEDIATE")
        self.own.put("from before")
        self.command("a")
        self.relay.wait_err("inbound link: ", 3)
        self.assertNotIn("Received PUBACK from gateway-in", self.link.err())
        self.own.run("COMMIT")
        self.wait_effects("a")
        self.link.wait_err("Received PUBACK from gateway-in")
        self.own.wait_settled()
        self.assertEqual(
            self.relay.err().count("outbound link: connected"), 1)
        self.command("b")
        self.wait_effects("a", "b")


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "mosquitto_pub", "stdbuf")
    rig.main()
