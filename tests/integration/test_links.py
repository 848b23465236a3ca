# SPDX-License-Identifier: MIT
"""How the relay gets its link back: hints, several brokers, and a client id
that two devices share."""
import re

import rig

# a backoff that no test waits for
LONG = ("reconnect_base_ms=300000", "reconnect_cap_ms=300000")
# what a hint may take: a step, and the 1 s in which Paho starts a connection
SOON_S = 10
UP = "outbound link: connected"


class Hints(rig.Case):
    def test_network_that_is_back_is_used_at_once(self):
        port = rig.free_port()
        gateway = self.gateway(f"tcp://127.0.0.1:{port}", *LONG,
                               "commands=cmd/#")
        gateway.wait_err("next try in", 2)
        waits = [int(ms) for ms in
                 re.findall(r"next try in (\d+) ms", gateway.err())]
        self.assertGreater(min(waits), SOON_S * 1000)
        self.broker(port=port)
        self.database().put("x")
        gateway.signal(rig.signal.SIGUSR1)
        gateway.wait_err(UP, seconds=SOON_S)
        gateway.wait_err("inbound link: connected", seconds=SOON_S)
        self.assertEqual(self.database().wait_settled()["delivered"], 1)

    def test_network_that_is_gone_is_told(self):
        gateway = self.gateway(f"tcp://127.0.0.1:{rig.free_port()}", *LONG)
        gateway.wait_err("next try in")
        gateway.signal(rig.signal.SIGUSR2)
        gateway.wait_err("told that the network is gone")
        gateway.signal(rig.signal.SIGUSR1)
        gateway.wait_err("told that the network is back")
        gateway.wait_err("next try in", 2, seconds=SOON_S)
        self.assertEqual(gateway.end(), 0)


class Servers(rig.Case):
    def test_second_broker_serves_until_the_first_is_back(self):
        second = self.broker(name="second")
        sub = self.subscriber(second)
        port = rig.free_port()
        gateway = self.gateway(
            f"tcp://127.0.0.1:{port}, {second.uri()}", "first_server_s=3",
            "commands=cmd/#")
        gateway.wait_err(UP)
        gateway.wait_err("inbound link: connected")
        rig.wait_for(lambda: self.live_state().get("server") == "2",
                     "the live state names the server")
        own = self.database()
        own.put("for the second")
        sub.wait_payload("for the second")
        first = self.broker(name="first", port=port)
        gateway.wait_err("outbound link: back to the first server")
        gateway.wait_err("inbound link: back to the first server")
        rig.wait_for(lambda: self.live_state().get("server") == "1"
                     and self.live_state().get("inbound") == "up", "at home")
        home = self.subscriber(first, name="home")
        own.put("for the first")
        home.wait_payload("for the first")
        self.publish(first, "cmd/a", "go", "-D", "publish", "user-property",
                     "id", "1")
        rig.wait_for(lambda: own.value("SELECT count(*) FROM effect") == 1,
                     "commands come from the first, too")
        # it took leave: no broker saw an error
        self.assertEqual(second.err().count("Socket error"), 0)
        self.assertEqual(own.wait_settled()["held"], 0)
        self.assert_sound(own)


class ClientIds(rig.Case):
    def test_two_devices_of_one_id_do_not_throw_each_other_out_for_ever(self):
        # mosquitto closes the connection and does not say why
        broker = self.fake_broker("discafter=1:0x8e")
        gateway = self.gateway(broker.uri(), "reconnect_cap_ms=300000",
                               "stable_ms=1")
        self.database().put("x")
        gateway.wait_err("another client uses this client id")
        wait = re.search(r"another client.*next try in (\d+) ms",
                         gateway.err())
        # a tenth of the minute at which the backoff begins for it
        self.assertGreaterEqual(int(wait.group(1)), 6000)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_pub", "mosquitto_sub", "stdbuf")
    rig.main()
