#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write a housekeeper without its guard, as a control for wal_reset.c.

    unguard.py unpinned|unguarded HOUSEKEEPER.C OUT.C

unpinned    checkpoints under the write lock, but nothing holds the WAL
unguarded   checkpoints all the time, without lock and pin
"""
import sys

NO_PIN = ("    if (h->is_sound || h->is_pinned)\n        return POSTBAG_OK;\n",
          "    h->is_pinned = 1;\n    return POSTBAG_OK;\n")
NO_LOCK = ("        if (!is_due(h))\n            return POSTBAG_OK;\n"
           "        err = checkpoint(h);\n",
           "        for (int i = 0, left; i < 2000 && err == POSTBAG_OK; i++)\n"
           "            err = run_checkpoint(h, &left);\n")
CHANGES = {"unpinned": [NO_PIN], "unguarded": [NO_PIN, NO_LOCK]}


def main(variant, source, out):
    with open(source, encoding="utf-8") as file:
        text = file.read()
    for old, new in CHANGES[variant]:
        if text.count(old) != 1:
            sys.exit(f"{source}: not exactly once there:\n{old}")
        text = text.replace(old, new)
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)


main(*sys.argv[1:])
