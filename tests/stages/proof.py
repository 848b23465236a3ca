#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests have shown (tests/support/proof.h), as a table.

    proof.py table FILE ...     of ctest's JUnit files and of logs
    proof.py keep RESULT SECTION CODE SECONDS FILE ...
                                write down what a section of --prove has shown
    proof.py stands RESULT      has it passed on this commit? (exit 0)
    proof.py report             the table of all results in build/proof, in
                                Markdown
    proof.py sections           what there is to run

A control that noticed nothing, and a row of the file `rows` that nobody spoke
of, fail `table`, `keep` (controls only) and `report`.
"""
import glob
import json
import os
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROOF = re.compile(r"^proof: (\w+) trials=(\d+) seeds=(\d+)\.\.(\d+)$")
CONTROL = re.compile(r"^control: (\w+) (\w+) hits=(\d+) trials=(\d+)$")
HEAD = ("row", "what", "trials", "seeds", "failures", "3/n", "controls",
        "section, commit")
LEGEND = """A trial that fails ends its test, and then its row is "not shown".
3/n: after n trials without a failure one fails, 95 % sure, less often than
that.  Controls: how often what was broken on purpose was noticed, of how many
tries.
"""


# ---- what was said -----------------------------------------------------------

class Row:
    """What was shown of one row, by however many programs."""

    def __init__(self):
        self.trials = 0
        self.seeds = []
        self.controls = {}  # name: [hits, trials]
        self.sources = set()

    def seed_text(self):
        texts = {f"{first}..{last}" for first, last in self.seeds if last}
        return " ".join(sorted(texts)) or "-"

    def bound(self):
        """95 % sure that it fails less often than this."""
        return f"{3 / self.trials:.1e}" if self.trials else "-"

    def control_text(self):
        return " ".join(f"{name} {hits}/{trials}" for name, (hits, trials)
                        in sorted(self.controls.items())) or "-"


def read(path):
    """(lines, names of failed tests); no such file: nothing was said."""
    if not os.path.exists(path):
        return [], []
    if not path.endswith(".xml"):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines(), []
    cases = ElementTree.parse(path).getroot().findall("testcase")
    lines = [line for case in cases
             for line in (case.findtext("system-out") or "").splitlines()]
    return lines, [case.get("name") for case in cases
                   if case.get("status") == "fail"]


def said(lines):
    """Only the lines that are evidence."""
    return [line for line in map(str.strip, lines)
            if PROOF.match(line) or CONTROL.match(line)]


def rows_of(lines):
    rows = {}
    for line in lines:
        match = PROOF.match(line)
        if match:
            row = rows.setdefault(match[1], Row())
            row.trials += int(match[2])
            row.seeds.append((int(match[3]), int(match[4])))
        match = CONTROL.match(line)
        if match:
            hits = rows.setdefault(match[1], Row()).controls.setdefault(
                match[2], [0, 0])
            hits[0] += int(match[3])
            hits[1] += int(match[4])
    return rows


def wanted():
    """{row: what it is about}, in order."""
    with open(os.path.join(HERE, "rows"), encoding="utf-8") as file:
        words = [line.split(None, 1) for line in file
                 if line.strip() and not line.startswith("#")]
    return {row: what.strip() for row, what in words}


def blind(rows):
    """Controls that noticed nothing."""
    return [f"{row}: control {name} noticed nothing in {trials} trials"
            for row, of in rows.items()
            for name, (hits, trials) in of.controls.items() if hits == 0]


def missing(rows):
    return [f"{row}: nothing was shown: {what}"
            for row, what in wanted().items()
            if row not in rows or rows[row].trials == 0]


def unknown(rows):
    return [f"{row}: stands in no line of tests/stages/rows"
            for row in rows if row not in wanted()]


# ---- tables -----------------------------------------------------------------

def cells(rows):
    """Those of the file `rows`, in its order."""
    for name, what in wanted().items():
        row = rows.get(name, Row())
        yield (name, what, str(row.trials), row.seed_text(),
               "0" if row.trials else "not shown", row.bound(),
               row.control_text(), ", ".join(sorted(row.sources)) or "-")


def print_table(rows):
    for row, _, trials, seeds, failures, bound, controls, _ in cells(rows):
        print(f"{row:<24} {trials:>9} trials, failures {failures}, "
              f"3/n {bound:>7}, seeds {seeds}, controls {controls}")


def print_markdown(rows):
    print("| " + " | ".join(HEAD) + " |")
    print("| --- | --- | ---: | --- | ---: | ---: | --- | --- |")
    for row in cells(rows):
        print("| " + " | ".join(row) + " |")


def complain(findings):
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def table(paths):
    lines = [line for path in paths for line in read(path)[0]]
    rows = rows_of(said(lines))
    print_table(rows)
    return complain(blind(rows) + missing(rows) + unknown(rows))


# ---- results that are kept --------------------------------------------------

def git(*words):
    done = subprocess.run(("git", "-C", ROOT, *words), capture_output=True,
                          text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """Of the sources as they are; None: they are no commit's."""
    return git("rev-parse", "HEAD") if git("status", "--porcelain") == "" \
        else None


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return (f"{os.cpu_count()} CPUs ({model[1] if model else '?'}), "
            f"{platform.machine()}, Linux {platform.release().split('-')[0]}")


def keep(path, section, code, seconds, *logs):
    read_all = [read(log) for log in logs]
    lines = said(line for lines, _ in read_all for line in lines)
    failed = sorted({name for _, names in read_all for name in names})
    findings = blind(rows_of(lines))
    passed = code == "0" and not failed and not findings
    if code != "0" and not failed:
        failed = [f"the command itself, see {logs[0]}"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"section": section, "passed": passed, "failed": failed,
                   "commit": commit(), "seconds": int(seconds),
                   "date": time.strftime("%Y-%m-%d", time.gmtime()),
                   "machine": machine(), "lines": lines}, file, indent=1)
    print_said(rows_of(lines))
    return complain(findings + [f"failed: {name}" for name in failed])


def print_said(rows):
    for name, row in rows.items():
        print(f"{name}: {row.trials} trials, 3/n {row.bound()}, controls "
              f"{row.control_text()}")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def stands(path):
    if not os.path.exists(path):
        return 1
    result = load(path)
    return 0 if result["passed"] and result["commit"] is not None \
        and result["commit"] == commit() else 1


def short(result):
    return (result["commit"] or "changed sources")[:9]


def rows_of_all(results):
    """The sum, and of each row the sections and their commits."""
    rows = rows_of(line for result in results for line in result["lines"])
    for result in results:
        for name in rows_of(result["lines"]):
            rows[name].sources.add(f"{result['section']} {short(result)}")
    return rows


def report():
    results = [load(path) for path in
               sorted(glob.glob(os.path.join(ROOT, "build/proof/*.json")))]
    rows = rows_of_all(results)
    for result in results:
        state = "passed" if result["passed"] else "FAILED"
        print(f"- `{result['section']}`: {state}, {result['seconds']} s, "
              f"{short(result)}, {result['date']}, {result['machine']}")
    print("\n" + LEGEND)
    print_markdown(rows)
    print()
    return complain(blind(rows) + unknown(rows) + [
        f"{result['section']} failed: {' '.join(result['failed'])}"
        for result in results if not result["passed"]] + [
        f"not shown: {len(missing(rows))} rows"] * bool(missing(rows)))


def sections():
    with open(os.path.join(HERE, "sections"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                name, _, what = line.split(None, 2)
                print(f"{name:<12} {what.strip()}")
    return 0


def main():
    calls = {"table": lambda *paths: table(paths), "keep": keep,
             "stands": stands, "report": report, "sections": sections}
    if len(sys.argv) < 2 or sys.argv[1] not in calls:
        sys.exit(__doc__)
    return calls[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
