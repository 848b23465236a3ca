#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the demo firmware and do to it what the field does; see ../demo."""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
from stage import TOPICS, Stage, Trouble  # noqa: E402
from story import Story  # noqa: E402
from verdict import Verdict  # noqa: E402


def say(text):
    print(text, flush=True)


def colour(code, text):
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR")
    return text if plain else f"\033[{code}m{text}\033[0m"


def play(stage, seed):
    stage.start_broker()
    stage.open_wire()
    stage.start_subscriber(TOPICS)
    story = Story(stage, random.Random(seed), say)
    story.play()
    return story


def show(verdict, seconds):
    say("")
    for line in verdict.lines():
        if len(line) == 1:
            say(colour(1, line[0]))
        else:
            say(f"  {line[0]:<26}{line[1]:>16}   {line[2]}".rstrip())
    say("")
    if verdict.is_good():
        say(colour(32, f"OK: nothing was lost and no effect doubled "
                       f"({seconds:.0f} s)"))
    else:
        say(colour(31, "FAILED: a number above that must be 0 is not"))


def run(folder, arguments):
    """True if all is well."""
    begun = time.monotonic()
    stage = Stage(folder, os.path.abspath(arguments.bin))
    try:
        story = play(stage, arguments.seed)
        verdict = Verdict(stage, story)
        show(verdict, time.monotonic() - begun)
        return verdict.is_good()
    except Trouble as trouble:
        say(colour(31, f"FAILED: {trouble}"))
        return False
    except Exception:
        traceback.print_exc()
        return False
    finally:
        stage.end_all()


def end(number, _):
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="the built programs")
    parser.add_argument("--keep", action="store_true",
                        help="keep the folder with database and logs")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000,
                        help="of the random moments")
    arguments = parser.parse_args()
    # The thread that is the wire must not wait 5 ms for this one.
    sys.setswitchinterval(0.0005)
    # As exceptions, so that the processes are ended and the folder goes.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    # On the disk that the build is on: /tmp may be memory, where a sync costs
    # nothing.
    folder = tempfile.mkdtemp(
        prefix="demo-", dir=os.path.dirname(os.path.abspath(arguments.bin)))
    say(f"seed {arguments.seed}, files in {folder}")
    keep = arguments.keep
    try:
        is_good = run(folder, arguments)
        keep = keep or not is_good
    finally:
        if keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder)
    return 0 if is_good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
