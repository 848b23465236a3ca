# SPDX-License-Identifier: MIT
"""The rules.  Each takes a Tree and yields (path, line, message)."""
import re

import floors

MAX_FUNCTION = 60
MAX_FILE = 500
MAX_COLUMNS = 80

BANNED_CALLS = [
    "strcpy", "strcat", "sprintf", "vsprintf", "atoi", "atol", "atoll", "atof",
    "gets", "strtok", "time", "sleep", "usleep", "rand", "srand", "random",
    "system", "popen", "tmpnam", "mktemp",
]
ALLOCATOR_CALLS = [
    "malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf",
    "vasprintf",
]
BANNED_SYMBOLS = re.compile(
    r"pthread_\w*|clock_gettime|clock_nanosleep|gettimeofday|time|u?sleep"
    r"|nanosleep|s?rand(om)?|rand_r|getrandom|arc4random\w*|uuid_\w*|socket"
    r"|(__)?v?f?printf(_chk)?|puts|putchar|fputs|fwrite")

PAHO_TRAPS = re.compile(
    r"\bpacket_type\b|\bMQTTClient_\w+|\bMQTTAsync_(reconnect|subscribeMany"
    r"|isConnected|isComplete|waitForCompletion|getPendingTokens)\b")


def _stem(path):
    return path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def _is_core(path):
    return re.fullmatch(r"src/[^/]+\.[ch]", path) is not None


def floors_of(tree):
    """{stem: floor} as the files of src/ say."""
    said = {}
    # A header, read after its .c, has the last word.
    for source in sorted(tree.c_files, key=lambda s: s.path.endswith(".h")):
        if _is_core(source.path):
            match = re.search(r"\bFloor (\d)\.", source.text[:2000])
            if match:
                said[_stem(source.path)] = int(match.group(1))
    return said


def _may_see(stem, other):
    if other in floors.BASE:
        return stem not in floors.BASE
    return other in floors.SAME_FLOOR.get(stem, [])


def floor_said(tree):
    """Each file of src/ has a floor; the exceptions make no circle."""
    said = floors_of(tree)
    for source in tree.c_files:
        if _is_core(source.path) and _stem(source.path) not in said:
            yield source.path, 1, 'its head does not say "Floor N."'
    for stem in floors.SAME_FLOOR:
        seen, queue = set(), list(floors.SAME_FLOOR[stem])
        while queue:
            other = queue.pop()
            if other == stem:
                yield "tests/lint/floors.py", 1, f"{stem} includes itself"
                break
            if other not in seen:
                seen.add(other)
                queue += floors.SAME_FLOOR.get(other, [])


def floor_drawn(tree):
    """src/README.md names each file in its floor's row: | 0 | `mem` ... |"""
    readme = dict(tree.texts).get("src/README.md")
    if readme is None:
        return
    drawn = {}
    for line in readme.split("\n"):
        row = re.match(r"\|\s*(\d)\s*\|", line)
        for stem in re.findall(r"`(\w+)`", line) if row else []:
            drawn[stem] = int(row.group(1))
    said = floors_of(tree)
    for stem in sorted(set(said) | set(drawn)):
        if said.get(stem) != drawn.get(stem):
            yield ("src/README.md", 1, f"{stem}: drawn on floor "
                   f"{drawn.get(stem)}, the file says {said.get(stem)}")


def floor_includes(tree):
    """Includes in src/ go down."""
    said = floors_of(tree)
    for source in tree.c_files:
        own = _stem(source.path)
        if not _is_core(source.path) or own not in said:
            continue
        for line, quote, name in source.includes():
            other = _stem(name)
            if quote == "<" or "/" in name or other == own:
                continue
            if other not in said:
                yield source.path, line, f"{name} has no floor"
            elif said[other] > said[own]:
                yield source.path, line, f"{name} is on a higher floor"
            elif said[other] == said[own] and not _may_see(own, other):
                yield source.path, line, f"{name} is on the same floor"


def core_includes(tree):
    """src/ sees of the rest the contracts only."""
    for source in tree.c_files:
        if not _is_core(source.path):
            continue
        for line, _, name in source.includes():
            if name in ("postbag/linux.h", "postbag/paho.h"):
                yield source.path, line, f"{name} belongs to a port"
            elif "/" in name and not name.startswith(("postbag/", "sys/")):
                yield source.path, line, f"{name} is outside src/"


def outer_includes(tree):
    """port/, boards/ and the command see include/ and their own folder."""
    for source in tree.c_files:
        if not source.path.startswith(("port/", "boards/", "src/cli/")):
            continue
        folder = source.path.rsplit("/", 1)[0]
        for line, quote, name in source.includes():
            if name.startswith("postbag/"):
                continue
            if quote == '"' and f"{folder}/{name}" not in tree.paths:
                yield source.path, line, f"{name} is not of include/"


def sqlite_header(tree):
    for source in tree.c_files:
        if not source.path.startswith(("src/", "include/")):
            continue
        for line, _, name in source.includes():
            if "sqlite3" in name and source.path not in floors.SQLITE_HEADER:
                yield source.path, line, f"{name}: only db.c sees SQLite"


def sqlite_codes(tree):
    for source in tree.c_files:
        if not source.path.startswith("src/"):
            continue
        if source.path in floors.SQLITE_CODES:
            continue
        for match in re.finditer(r"\bSQLITE_\w+", source.code):
            yield (source.path, source.line_of(match.start()),
                   f"{match.group()}: only db.c knows SQLite's codes")


def paho_header(tree):
    for source in tree.c_files:
        for line, _, name in source.includes():
            if name.startswith("MQTT") and not source.path.startswith(
                    ("port/paho/", "tests/")):
                yield source.path, line, f"{name}: only port/paho sees Paho"


def paho_traps(tree):
    """What of Paho must not be used; port/paho/README.md says why."""
    for source in tree.c_files:
        if not source.path.startswith("port/paho/"):
            continue
        for match in PAHO_TRAPS.finditer(source.code):
            yield (source.path, source.line_of(match.start()),
                   f"{match.group()}: see port/paho/README.md")


def one_sender(tree):
    """Two threads that send may crash Paho: all sends come from one place."""
    for source in tree.c_files:
        if not source.path.startswith("src/"):
            continue
        if source.path == floors.SENDER:
            continue
        for match in re.finditer(r"->\s*send\s*\(", source.code):
            yield (source.path, source.line_of(match.start()),
                   f"only {floors.SENDER} sends")


def unit_test(tree):
    """Each file of src/ has a test of its own: tests/unit/test_<file>.c"""
    for source in tree.c_files:
        if not _is_core(source.path) or source.path.endswith(".h"):
            continue
        wanted = f"tests/unit/test_{_stem(source.path)}.c"
        if wanted not in tree.paths:
            yield source.path, 1, f"there is no {wanted}"


def public_names(tree):
    """Each public function starts with postbag_ and is marked as exported."""
    for source in tree.c_files:
        if not source.path.startswith("include/"):
            continue
        for function in source.functions():
            if not function.name.startswith("postbag_"):
                yield source.path, function.line, f"name of {function.name}"
            if "POSTBAG_API" not in function.head.split():
                yield (source.path, function.line,
                       f"{function.name} lacks POSTBAG_API")


def banned_calls(tree):
    for source in tree.c_files:
        if source.path.startswith(("src/", "port/")):
            for line, name in source.calls(BANNED_CALLS):
                yield source.path, line, f"{name}() is banned"


def allocator_calls(tree):
    for source in tree.c_files:
        if not source.path.startswith("src/"):
            continue
        if source.path.startswith(tuple(floors.ALLOCATOR)):
            continue
        for line, name in source.calls(ALLOCATOR_CALLS):
            yield source.path, line, f"{name}(): memory comes from mem.h"


def function_length(tree):
    for source in tree.c_files:
        for function in source.functions():
            if function.body_end and function.length > MAX_FUNCTION:
                yield (source.path, function.line,
                       f"{function.name} has {function.length} lines")


def file_length(tree):
    for source in tree.c_files:
        length = source.text.count("\n")
        if length > MAX_FILE:
            yield source.path, MAX_FILE + 1, f"{length} lines"


def line_length(tree):
    for source in tree.c_files:
        for number, line in enumerate(source.lines, 1):
            if len(line) > MAX_COLUMNS:
                yield source.path, number, f"{len(line)} columns"


def error_codes(tree):
    """Each code of POSTBAG_ERROR_MAP stands in a comment of some header."""
    headers = [s for s in tree.c_files if s.path.startswith("include/")]
    comments = "\n".join(c for s in headers for c in s.comments)
    for source in headers:
        for match in re.finditer(r"\bX\((E[A-Z]+),\s*-\d+,", source.text):
            code = match.group(1)
            if not re.search(rf"\b(POSTBAG_)?{code}\b", comments):
                yield (source.path, source.line_of(match.start()),
                       f"no comment says what returns {code}")


def board_values(tree):
    """Each value in a board.conf is of an option of its section and within
    the range."""
    options = {}
    for source in tree.c_files:
        if source.path.startswith("include/"):
            section = "mqtt" if source.path.endswith("/paho.h") else "postbag"
            for match in re.finditer(
                    r"X\((U32|STR), (\w+), [^,]+, (\d+), (\d+),",
                    source.text):
                options[section, match.group(2)] = match.groups()
    for path, text in tree.texts:
        if not path.endswith("/board.conf"):
            continue
        section = ""
        for number, line in enumerate(text.split("\n"), 1):
            name, _, value = map(str.strip, line.partition("="))
            if name.startswith("["):
                section = name.strip("[]")
            if not name or name.startswith(("#", ";", "[")):
                continue
            kind, _, low, high = options.get((section, name), ("", "", 0, 0))
            size = (int(value) if kind == "U32" and value.isdigit()
                    else len(value) if kind == "STR" else -1)
            if not int(low) <= size <= int(high):
                yield path, number, f"no such option or value: {line}"


def leftovers(tree):
    """No marks of unfinished work."""
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
    for path, text in tree.texts:
        for number, line in enumerate(text.split("\n"), 1):
            if marks.search(line):
                yield path, number, "unfinished: " + line.strip()[:60]


def licence_line(tree):
    """Each source file says its licence in its first three lines."""
    endings = (".c", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt", ".map")
    for path, text in tree.texts:
        head = "\n".join(text.split("\n")[:3])
        if path.endswith(endings) or text.startswith("#!"):
            if "SPDX-License-Identifier: MIT" not in head:
                yield path, 1, "no SPDX-License-Identifier: MIT at its top"


ALL = [
    floor_said, floor_drawn, floor_includes, core_includes, outer_includes,
    sqlite_header, sqlite_codes, paho_header, paho_traps, one_sender, unit_test,
    public_names, banned_calls, allocator_calls, function_length, file_length,
    line_length, error_codes, board_values, leftovers, licence_line,
]


def banned_symbols(nm_output):
    """Not a rule over sources: symbols that the core's objects ask for."""
    for line in nm_output.splitlines():
        name = line.split()[-1].split("@")[0] if line.split() else ""
        if BANNED_SYMBOLS.fullmatch(name):
            yield name
