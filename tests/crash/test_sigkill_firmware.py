# SPDX-License-Identifier: MIT
"""kill -9 as often as the machine permits: firmware that commits and relays,
and firmware that handles commands.  killfarm.py says what must hold."""
import killfarm
import rig

KILLS = 6000 if rig.PROVE else 150 if rig.FULL else 25


class Sigkill(rig.Case):
    def test_firmware_killed_anywhere_keeps_all_promises(self):
        farm = killfarm.Farm(self, (killfarm.Firmware, killfarm.Handler))
        farm.run(KILLS)
        self.assertEqual(farm.finish(), {})
        self.assertGreater(farm.effects, 0)
        farm.tell("F14_sigkill")


if __name__ == "__main__":
    rig.need("mosquitto", "setpriv")
    rig.main()
