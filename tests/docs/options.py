#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The parts of README.md that come from other files.

    options.py            print the tables of options as Markdown
    options.py --write    put them, and the quickstart, into README.md

The tables come from the one table in include/postbag/options.h and its sister
in paho.h, the program from boards/host/examples/quickstart.c.
"""
import os
import re
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
README = "README.md"
SECTIONS = (
    # section, header, macro, and what is no option but may stand there
    ("postbag", "include/postbag/options.h", "POSTBAG_OPTION_MAP",
     [("STR", "db", "", "1", "4095", "",
       "the application's database; required")]),
    ("mqtt", "include/postbag/paho.h", "POSTBAG_PAHO_OPTION_MAP", []),
)
TEXT = r'"(?:[^"\\]|\\.)*"'
ROW = re.compile(
    rf"X\((U32|STR),\s*(\w+),\s*({TEXT}|\d+),\s*(\d+),\s*(\d+),\s*({TEXT}),"
    rf"\s*({TEXT}(?:\s*{TEXT})*)\)")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def unquote(literals):
    """The text of one C string literal, or of several in a row."""
    pieces = re.findall(TEXT, literals)
    return "".join(re.sub(r"\\(.)", r"\1", piece[1:-1]) for piece in pieces)


def rows_of(header, macro):
    """(kind, name, default, min, max, unit, help) of each option."""
    found = re.search(rf"#define {macro}\(X\)((?:[^\n]*\\\n)*[^\n]*)",
                      read(header))
    body = found[1].replace("\\\n", "\n") if found else ""
    rows = []
    for match in ROW.finditer(body):
        kind, name, default, low, high, unit, text = match.groups()
        default = unquote(default) if default.startswith('"') else default
        rows.append((kind, name, default, low, high, unquote(unit),
                     unquote(text)))
    if not rows or len(rows) != body.count("X("):
        raise SystemExit(f"{header}: {macro} cannot be read")
    return rows


def line_of(row):
    kind, name, default, low, high, unit, text = row
    shown = f"`{default}`" if default else ""
    bounds = (f"{low}..{high} bytes" if kind == "STR"
              else f"`{low}..{high}` {unit}")
    return f"| `{name}` | {shown} | {bounds} | {text} |"


def options():
    """As `postbag relay --options` prints them."""
    tables = []
    for section, header, macro, more in SECTIONS:
        tables.append("\n".join(
            [f"`[{section}]`", "", "| key | default | range | meaning |",
             "| --- | --- | --- | --- |"]
            + [line_of(row) for row in more + rows_of(header, macro)]) + "\n")
    return "\n".join(tables)


def quickstart():
    """Its heart; the file has the rest."""
    program = read("boards/host/examples/quickstart.c")
    heart = program.split("/* README: begin */\n")[1]
    return "```c\n" + heart.split("/* README: end */\n")[0] + "```\n"


PARTS = {"options": options, "quickstart": quickstart}


def region(name):
    return re.compile(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->\n)",
                      re.DOTALL)


def findings(text):
    """What in README.md (its text) is not as it would be written now."""
    for name, make in PARTS.items():
        match = region(name).search(text)
        if match is None:
            yield f"{README}: there is no part <!-- begin {name} -->"
        elif match.group(2) != make():
            yield (f"{README}: the part {name} is out of date:"
                   " tests/docs/options.py --write")


def write():
    text = read(README)
    for name, make in PARTS.items():
        part = make()
        text = region(name).sub(
            lambda match, part=part: match[1] + part + match[3], text)
    with open(os.path.join(ROOT, README), "w", encoding="utf-8") as file:
        file.write(text)


def main(arguments):
    if arguments == ["--write"]:
        write()
    elif not arguments:
        sys.stdout.write(options())
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
