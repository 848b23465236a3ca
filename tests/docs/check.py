#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do the documents say what is so?

    check.py --postbag COMMAND --build FOLDER --ctest CTEST --cc COMPILER

Compares README.md and the pages of src/ and tests/ with the tests there are, a
database made just now, the sources and the command; runs their examples.
Exit 1 with what was found.
"""
import argparse
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import options  # noqa: E402

ROOT = options.ROOT
PAGES = ("README.md", "CHANGELOG.md", "src/README.md", "src/DESIGN.md",
         "src/FORMAT.md", "tests/README.md", "tests/consumers/README.md",
         "port/README.md",
         "port/paho/README.md")
TEST_NAME = re.compile(
    r"(unit_test|port|cli|integration|crash|stress|sim|torture|fuzz|package|lint|docs"
    r"|board)_\w+"
    r"|test_paho(_\w+)?|lint|docs")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
C_HEAD = """#include <sqlite3.h>
#include <stddef.h>
#include "postbag/linux.h"
#include "postbag/paho.h"
#include "postbag/postbag.h"
void must(int err, const char *text);
extern struct postbag_fault why;
"""


class Facts:
    """What is so; selftest.py makes some that are not."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.pages = {}
        for path in PAGES:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                self.pages[path] = file.read()

    def run(self, *command, **options):
        return subprocess.run(command, check=True, capture_output=True,
                              text=True, **options).stdout

    def tests(self):
        """Asked from another folder: ctest would write over its own log."""
        build = os.path.abspath(self.arguments.build)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "CTestTestfile.cmake"), "w",
                      encoding="utf-8") as file:
                file.write(f'subdirs("{build}")\n')
            listed = self.run(self.arguments.ctest, "--show-only=json-v1",
                              cwd=folder)
        return {test["name"] for test in json.loads(listed)["tests"]}

    def postbag(self, *words):
        return self.run(self.arguments.postbag, *words)


# ---- Markdown ---------------------------------------------------------------

def prose(text):
    """Without code blocks, which are no Markdown."""
    return FENCE.sub("", text)


def section(text, heading):
    """From a heading to the next one of its level or above."""
    level = heading.split(" ")[0]
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)",
                      text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def tables(text):
    """Each table as (first word of its head, rows as lists of cells)."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip("| ").split(" | ")]
                for line in block.splitlines()]
        yield rows[0][0], rows[2:]


def name_of(cell):
    found = re.fullmatch(r"`(.*)`", cell)
    return found[1] if found else "?"


def first_words(text, head):
    """The names in the first column of the tables with that head."""
    return [name_of(row[0]) for name, rows in tables(text) if name == head
            for row in rows]


def slug(heading):
    """The anchor that a heading has on the web."""
    plain = re.sub(r"[^\w\- ]", "", heading.lower())
    return plain.strip().replace(" ", "-")


# ---- checks: each yields findings -------------------------------------------

def promises_name_tests(facts):
    part = section(facts.pages["README.md"], "## What holds")
    promises = re.split(r"^\d+\. ", part, flags=re.MULTILINE)[1:]
    if len(promises) < 5:
        yield "README.md: where are the promises?"
    for promise in promises:
        if not re.search(r"Test: `\w+`", promise):
            yield f"README.md: no test proves: {promise[:40]}"


def named_tests_exist(facts):
    there = facts.tests() | cases()
    for path, text in facts.pages.items():
        for name in re.findall(r"`(\w+)`", prose(text)):
            if TEST_NAME.fullmatch(name) and name not in there:
                yield f"{path}: there is no test {name}"


def named_cases_exist(facts):
    there = cases()
    for path, text in facts.pages.items():
        for name in re.findall(r"`(test_\w+)`", prose(text)):
            if not TEST_NAME.fullmatch(name) and name not in there:
                yield f"{path}: there is no case {name}"


def guards_have_controls(facts):
    """The port's tables: each row has a test, and a mutant or a fact."""
    page = "port/paho/README.md"
    mutants = set(re.findall(r"^mutant (\w+)", options.read(
        "tests/mutants/list"), re.MULTILINE))
    rows = [row for head, rows in tables(facts.pages[page])
            if head == "trap" for row in rows]
    if len(rows) < 30:
        yield f"{page}: where are the guards?"
    for row in rows:
        trap, control = row[0][:50], row[-1]
        if len(row) != 4 or "`" not in row[2]:
            yield f"{page}: not trap, guard, test, control: {trap}"
        if not re.match(r"`|fact: ", control):
            yield f"{page}: what shows that it can fail: {trap}"
        for name in [] if control.startswith("fact: ") else re.findall(
                r"`(\w+)`", control):
            if name not in mutants:
                yield f"{page}: there is no mutant {name}"


def parts_are_fresh(facts):
    yield from options.findings(facts.pages["README.md"])
    if options.options() != facts.postbag("relay", "--options"):
        yield "postbag relay --options prints other tables"


def commands_are_listed(facts):
    """README's table of commands against the usage text."""
    text = section(facts.pages["README.md"], "## The command `postbag`")
    listed = [re.sub(r"^postbag | [A-Z-].*$", "", name)
              for name in first_words(text, "command")]
    there = [re.sub(r"( (--|[A-Z[]).*)? {2,}.*$", "", line.strip())
             for line in facts.postbag("--help").splitlines()
             if re.match(r"  [a-z]", line)]
    if sorted(listed) != sorted(there):
        yield f"README.md: commands {listed}, but there are {there}"


def files_are_mapped(facts):
    named = set(re.findall(r"`([\w/.]+)`", facts.pages["src/README.md"]))
    for folder, prefix in (("src", ""), ("src/cli", "cli/")):
        for name in os.listdir(os.path.join(ROOT, folder)):
            stem, dot, ending = name.partition(".")
            if dot and ending in ("c", "h") and prefix + stem not in named:
                yield f"src/README.md: where is {folder}/{name}?"


def tables_are_described(facts):
    text = facts.pages["src/FORMAT.md"]
    for kind, name, columns in schema_of(facts):
        if kind in ("index", "trigger"):
            if f"`{name}`" not in text:
                yield f"src/FORMAT.md: where is {kind} {name}?"
            continue
        part = section(text, f"### {kind.capitalize()} `{name}`")
        said = [row for head, rows in tables(part) if head == "column"
                for row in rows]
        names = [name_of(row[0]) for row in said]
        if names != [column for column, _ in columns]:
            yield f"src/FORMAT.md: columns of {name}: {names}"
        elif kind == "table" and [row[1] for row in said] != [
                of_type for _, of_type in columns]:
            yield f"src/FORMAT.md: types of {name}"


def described_tables_exist(facts):
    there = {name for kind, name, _ in schema_of(facts)}
    for name in re.findall(r"^### (?:Table|View) `(\w+)`",
                           facts.pages["src/FORMAT.md"], re.MULTILINE):
        if name not in there:
            yield f"src/FORMAT.md: there is no {name}"


def meta_is_described(facts):
    said = first_words(section(facts.pages["src/FORMAT.md"],
                               "### Table `outbox_meta`"), "key")
    with fresh_database(facts) as db:
        there = [row[0] for row in db.execute("SELECT key FROM outbox_meta")]
    if sorted(said) != sorted(there):
        yield f"src/FORMAT.md: keys of outbox_meta: {said}, not {there}"


def live_state_is_described(facts):
    said = first_words(section(facts.pages["src/FORMAT.md"],
                               "## The live state"), "key")
    source = options.read("src/live.c").replace("\\n", " ")
    there = re.findall(r"(\w+)=%", source)
    if sorted(said) != sorted(there):
        yield f"src/FORMAT.md: live state: {said}, not {there}"


def links_resolve(facts):
    for path, text in facts.pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            if re.match(r"https?://", target):
                continue
            name, _, anchor = target.partition("#")
            other = os.path.normpath(os.path.join(os.path.dirname(path), name)
                                     if name else path)
            if not os.path.exists(os.path.join(ROOT, other)):
                yield f"{path}: {target} leads nowhere"
            elif anchor and anchor not in anchors_of(facts, other):
                yield f"{path}: {target}: no such heading"


def examples_run(facts):
    """README's SQL, Python and shell examples: each queues one message."""
    queued = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gateway.db")
        facts.postbag("init", path)
        for language, code in FENCE.findall(facts.pages["README.md"]):
            error = run_example(language, code, folder, facts)
            queued += "INSERT INTO outbox" in code
            if error:
                yield f"README.md: this {language} does not run: {error}"
        with sqlite3.connect(path) as db:
            there = db.execute("SELECT count(*) FROM outbox").fetchone()[0]
        db.close()
    if queued < 3 or there != queued:
        yield f"README.md: {queued} examples queued {there} messages"


# ---- what the checks need ---------------------------------------------------

def cases():
    """Names of the functions and methods of tests."""
    sources = []
    for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
        sources += [options.read(os.path.join(folder, name))
                    for name in names if name.endswith((".c", ".py"))]
    return set(re.findall(r"\b(test_\w+)\(", "\n".join(sources)))


class fresh_database:
    """A database that has just been made into an outbox."""

    def __init__(self, facts):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "fresh.db")
        facts.postbag("init", path)
        self.db = sqlite3.connect(path)

    def __enter__(self):
        return self.db

    def __exit__(self, *_):
        self.db.close()
        self.folder.cleanup()


def schema_of(facts):
    """(kind, name, [(column, type)]) of all that is there."""
    with fresh_database(facts) as db:
        rows = db.execute("SELECT type, name FROM sqlite_schema"
                          " WHERE name NOT LIKE 'sqlite_%'").fetchall()
        return [(kind, name,
                 [(row[1], row[2])
                  for row in db.execute(f"PRAGMA table_info({name})")])
                for kind, name in rows]


def anchors_of(facts, path):
    text = facts.pages.get(path) or options.read(path)
    return {slug(heading) for heading in
            re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)}


def run_example(language, code, folder, facts):
    """What went wrong, or None."""
    path = os.path.join(folder, "gateway.db")
    try:
        if language == "sql":
            db = sqlite3.connect(path, isolation_level=None)
            db.executescript(code)
            db.close()
        elif language == "python":
            facts.run(sys.executable, "-c", code, cwd=folder)
        elif language == "sh" and code.startswith("sqlite3 "):
            facts.run("sh", "-ec", code, cwd=folder)
        elif language == "c":
            facts.run(facts.arguments.cc, "-std=c11", "-Wall", "-Wextra",
                      "-Werror", "-Wno-unused-function", "-fsyntax-only",
                      "-I", os.path.join(ROOT, "include"), "-x", "c", "-",
                      input=C_HEAD + code)
    except sqlite3.Error as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        return error.stderr.strip()
    return None


CHECKS = (promises_name_tests, named_tests_exist, named_cases_exist,
          guards_have_controls, parts_are_fresh, commands_are_listed,
          files_are_mapped, tables_are_described, described_tables_exist,
          meta_is_described, live_state_is_described, links_resolve,
          examples_run)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("postbag", "build", "ctest", "cc"):
        parser.add_argument("--" + name, required=True)
    return parser.parse_args(arguments)


def main(arguments):
    facts = Facts(parse(arguments))
    found = [f"{check.__name__}: {finding}"
             for check in CHECKS for finding in check(facts)]
    for line in found:
        print(line)
    print(f"{len(facts.pages)} pages, {len(CHECKS)} checks,"
          f" {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
