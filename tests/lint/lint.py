#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the tree against the rules of rules.py; exit 1 with what was found.

    lint.py                 all rules over this checkout
    lint.py --nm NM OBJ...  the core's objects ask for nothing that is banned
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import rules  # noqa: E402
from csource import Source  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ["src", "include", "port", "boards", "tests"]
BINARY = (".png", ".db", ".gz", ".bin", ".pyc")


class Tree:
    """The files that the rules look at; files maps paths to texts."""

    def __init__(self, files):
        self.paths = set(files)
        self.texts = sorted(files.items())
        self.c_files = [Source(path, text) for path, text in self.texts
                        if path.endswith((".c", ".h"))]


def read_tree(root):
    files = {}
    for folder in FOLDERS:
        for where, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [f for f in folders if f not in ("__pycache__",
                                                          "corpus")]
            for name in names:
                path = os.path.join(where, name)
                if name.endswith(BINARY) or os.path.islink(path):
                    continue
                with open(path, encoding="utf-8") as file:
                    files[os.path.relpath(path, root)] = file.read()
    return Tree(files)


def check(tree):
    """All findings of all rules, as lines."""
    return [f"{path}:{line}: {rule.__name__}: {message}"
            for rule in rules.ALL for path, line, message in rule(tree)]


def check_objects(nm, objects):
    found = []
    for path in objects:
        output = subprocess.run([nm, "--undefined-only", path], check=True,
                                capture_output=True, text=True).stdout
        found += [f"{path}: asks for {name}"
                  for name in rules.banned_symbols(output)]
    return found


def main(arguments):
    if arguments[:1] == ["--nm"] and len(arguments) > 2:
        found = check_objects(arguments[1], arguments[2:])
        looked_at = f"{len(arguments) - 2} objects"
    elif not arguments:
        tree = read_tree(ROOT)
        found = check(tree)
        looked_at = f"{len(tree.texts)} files, {len(rules.ALL)} rules"
    else:
        print(__doc__)
        return 2
    for line in found:
        print(line)
    print(f"{looked_at}, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
