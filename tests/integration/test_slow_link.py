# SPDX-License-Identifier: MIT
"""A link so slow that one message takes longer than ack_timeout_ms: the
kernel's own token bucket on the loopback of a network namespace.  Nobody subscribes: what the broker sends
would stand in the same queue before its PUBACK."""
import rig

# bit/s, and the ack timeout: 64 KiB take at least twice as long
RATE, TIMEOUT_MS = (9600, 25000) if rig.FULL else (96000, 2500)


class SlowLink(rig.Case):
    def test_64_kib_are_sent_once_and_delivered(self):
        broker = self.broker()
        gateway = self.gateway(broker.uri(), f"ack_timeout_ms={TIMEOUT_MS}")
        gateway.wait_err("outbound link: connected")
        own = self.database()
        own.put_many(1, 1, size=65536)
        self.assertEqual(own.wait_settled(200)["delivered"], 1)
        self.assertEqual(gateway.err().count("outbound link: connected"), 1)
        self.assertEqual(broker.err().count("Received PUBLISH"), 1)
        self.assert_sound(own)


if __name__ == "__main__":
    # one Ethernet packet at a time; the kernel's default of 64 KiB a packet
    # would pass or wait as a whole
    rig.in_own_network(
        "ip link set lo mtu 1500",
        f"tc qdisc add dev lo root tbf rate {RATE}bit burst 1600"
        " latency 300s")
    rig.main()
