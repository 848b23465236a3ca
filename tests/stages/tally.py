#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Count what the stages ran; name each test that failed or was skipped.

    tally.py BUILD/tests.xml ...

Reads ctest's JUnit files.  Fails if a file is missing or a test failed; with
CI=true in the environment also if anything was skipped, because there every
tool can be had; but what a machine does not permit (namespaces, mounts), and
what Debian 12 does not have, cannot be installed, and is only counted.
"""
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

# How the reason of a skip begins that no installation would cure.
FORBIDDEN = ("not permitted: ", "not in Debian 12: ")


def reason(output):
    """The last line that a skipped program printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1].removeprefix("skipped: ") if lines else "no reason given"


def skips(case):
    """(name, reason) of a skipped test and of skipped cases inside it."""
    name = case.get("name")
    output = case.findtext("system-out") or ""
    if case.get("status") in ("notrun", "disabled"):
        return [(name, reason(output))]
    inner = re.findall(r"^\[  SKIPPED \] (\w+)$", output, re.MULTILINE)
    return [(f"{name}: {test}", "skipped by the test itself")
            for test in sorted(set(inner))]


def told(case, lines=12):
    """The last lines of a failed test, which say what did not hold."""
    output = (case.findtext("system-out") or "").splitlines()
    return [line for line in output if line.strip()][-lines:]


def tally(path):
    """Print one file's counts; return (failed, skipped without need)."""
    stage = os.path.basename(os.path.dirname(os.path.abspath(path)))
    try:
        cases = ElementTree.parse(path).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"{stage}: no result: {error}")
        return 1, 0
    failed = [case for case in cases if case.get("status") == "fail"]
    skipped = [skip for case in cases for skip in skips(case)]
    print(f"{stage}: {len(cases)} tests, {len(failed)} failed, "
          f"{len(skipped)} skipped")
    for name, why in skipped:
        print(f"  skipped {name}: {why}")
    for case in failed:
        print(f"  failed {case.get('name')}:")
        print("".join(f"    {line}\n" for line in told(case)), end="")
    lacking = [why for _, why in skipped if not why.startswith(FORBIDDEN)]
    return len(failed), len(lacking)


def main():
    counts = [tally(path) for path in sys.argv[1:]]
    failed = sum(count[0] for count in counts)
    skipped = sum(count[1] for count in counts)
    if skipped and os.environ.get("CI") == "true":
        print("CI=true: a test that is skipped for want of a tool is a failure")
        return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
