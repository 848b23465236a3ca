# SPDX-License-Identifier: MIT
"""Four processes put, with random rollbacks, while a relay drains: two through
the C API, two in plain SQL, with the same keys.  The relay is killed in
between, so that messages come twice."""
import os
import sys

import arrivals
import proof
import rig

PUTTER = os.environ.get("POSTBAG_PUTTER")
SCRIPT = os.path.join(rig.HERE, "putter.py")
COUNT = 2000 if rig.FULL else 500


class Writers(rig.Case):
    def putter(self, number):
        """Odd ones are in plain SQL."""
        name = f"p{number}"
        program = [sys.executable, SCRIPT] if number % 2 else [PUTTER]
        return self.keep(rig.Process(self.folder, name, [
            *program, self.db_path, name, str(rig.SEED), str(COUNT)]))

    def wait_done(self, putters):
        for putter in putters:
            putter.wait_out("done", seconds=120)
            self.assertEqual(putter.popen.wait(rig.WAIT_S), 0)

    def run_all(self):
        """The database and the subscriber, when all is delivered."""
        broker = self.broker()
        sub = self.subscriber(broker)
        relay = self.gateway(broker.uri())
        own = self.database()
        own.run("CREATE TABLE kept(payload TEXT)")
        putters = [self.putter(number) for number in range(4)]
        rig.wait_for(lambda: len(sub.messages()) > COUNT, "many have arrived")
        relay.kill()
        self.gateway(broker.uri(), name="second")
        self.wait_done(putters)
        own.wait_settled()
        put = own.counts()["put"]
        rig.wait_for(lambda: len(set(sub.ids())) >= put, "all have arrived")
        return own, sub

    def test_all_that_was_committed_arrives_and_in_order(self):
        own, sub = self.run_all()
        messages = sub.messages()
        committed = {payload for payload, in own.run("SELECT payload FROM kept")}
        print(f"  {len(committed)} committed, {len(messages)} arrived",
              flush=True)
        self.assertGreater(len(committed), 4 * COUNT)
        self.assertEqual(own.counts()["put"], len(committed))
        arrivals.check(self, committed, messages)
        arrivals.controls(self, "T10_writers", committed, messages)
        proof.say("T10_writers", 1, (rig.SEED, rig.SEED))
        self.assert_sound(own)


if __name__ == "__main__":
    rig.need("mosquitto", "mosquitto_sub", "stdbuf")
    rig.main()
