# SPDX-License-Identifier: MIT
"""putter.c in plain SQL: a program that has never heard of the library.

    putter.py DB NAME SEED COUNT
"""
import random
import sqlite3
import sys

KEYS, MOST = 5, 4


def put_one(db, dice, payload):
    key = dice.randrange(KEYS + 1)
    priority = int(dice.randrange(8) == 0)
    db.execute("INSERT INTO kept VALUES (?)", (payload,))
    db.execute(
        "INSERT INTO outbox(topic, payload, key, priority)"
        " VALUES (?, ?, ?, ?)",
        (f"t/{priority}", payload, None if key == KEYS else f"k{key}",
         priority))


def transact(db, dice, name, number):
    """The number of the next payload."""
    fate, count = dice.randrange(4), 1 + dice.randrange(MOST)
    db.execute("BEGIN IMMEDIATE")
    for i in range(count):
        if i + 1 == count:
            db.execute("SAVEPOINT last")
        put_one(db, dice, f"{name}-{number + i}")
    if fate == 0:
        db.execute("ROLLBACK TO last")
    db.execute("ROLLBACK" if fate == 1 else "COMMIT")
    return number + count


def main(path, name, seed, count):
    db = sqlite3.connect(path, timeout=20, isolation_level=None)
    dice = random.Random(f"{seed} {name}")
    number = 0
    for _ in range(int(count)):
        number = transact(db, dice, name, number)
    db.close()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
