# SPDX-License-Identifier: MIT
"""Commands from RabbitMQ to a firmware that is killed again and again."""
import os
import sys

import proof
import rig
import test_commands_kill
import test_rabbitmq


class RabbitMQ(test_commands_kill.Commands):
    COMMANDS, KILLS = (3000, 120) if rig.PROVE else (600, 40)
    LOGIN = ("mqtt_version=4", f"username={test_rabbitmq.Node.USER}",
             f"password={test_rabbitmq.Node.PASSWORD}")

    def start_broker(self):
        return self.keep(test_rabbitmq.Node(self.folder))

    def test_T6_killed_firmware_has_each_effect_once_with_rabbitmq(self):
        self.kill_and_compare()
        proof.say("T6_real", self.KILLS, (rig.SEED, rig.SEED))


if __name__ == "__main__":
    rig.need("mosquitto_pub", "epmd")
    if not os.access(test_rabbitmq.SERVER, os.X_OK):
        print("skipped: not installed: rabbitmq-server"
              " (tests/support/install.sh full)")
        sys.exit(77)
    rig.main()
