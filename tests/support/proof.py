# SPDX-License-Identifier: MIT
"""What a test has shown, as proof.h prints it; on lines of its own, also where
unittest has begun one."""


def say(row, trials, seeds=(0, 0)):
    """So many independent trials, none of which failed."""
    print(f"\nproof: {row} trials={trials} seeds={seeds[0]}..{seeds[1]}",
          flush=True)


def control(row, name, hits, trials):
    """In so many trials what was broken on purpose was noticed."""
    print(f"\ncontrol: {row} {name} hits={int(hits)} trials={trials}",
          flush=True)
