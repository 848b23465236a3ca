#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Negative controls: each rule finds its fault in a small bad sample, at the
line where it is, and nothing in a good one.

    selftest.py CC NM    the compiler and nm for the rule about symbols
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import floors  # noqa: E402
import rules  # noqa: E402
from csource import Source  # noqa: E402
from lint import Tree, check_objects  # noqa: E402

SPDX = "/* SPDX-License-Identifier: MIT */\n"
LONG_BODY = "int tall(void)\n{\n" + "    step();\n" * 58 + "}\n"

# rule: (files, [(path, line) of each finding])
BAD = {
    "floor_said": (
        {"src/gadget.c": SPDX, "src/db.c": SPDX,
         "src/db.h": "/* Floor 1.  SQLite. */\n",
         "src/engine.c": "/* Floor 4. */\n"},
        [("src/gadget.c", 1)]),
    "floor_drawn": (
        {"src/mem.h": "/* Floor 0. */\n", "src/db.h": "/* Floor 1. */\n",
         "src/README.md": "| 0 | `mem`, `db` |\n| 1 | |\n`x` is out\n"},
        [("src/README.md", 1)]),
    "floor_includes": (
        {"src/mem.h": "/* Floor 0. */\n",
         "src/error.h": '/* Floor 0. */\n#include "mem.h"\n',
         "src/db.h": "/* Floor 1. */\n", "src/mail.h": "/* Floor 1. */\n",
         "src/writer.h": "/* Floor 3. */\n",
         "src/db.c": SPDX + '#include "db.h"\n#include "writer.h"\n'
                     '#include "mem.h"\n#include "mail.h"\n'
                     '#include "gadget.h"\n',
         "src/log.c": '/* Floor 0. */\n#include "mem.h"\n'},
        [("src/db.c", 3), ("src/db.c", 5), ("src/db.c", 6),
         ("src/error.h", 2)]),
    "core_includes": (
        {"src/writer.c": '#include "postbag/port.h"\n'
                         '#include "postbag/linux.h"\n'
                         '#include "../port/linux/linux_port.h"\n'},
        [("src/writer.c", 2), ("src/writer.c", 3)]),
    "outer_includes": (
        {"port/linux/clock.c": '#include "postbag/port.h"\n'
                               '#include "own.h"\n#include "db.h"\n',
         "port/linux/own.h": "#include <time.h>\n",
         "src/cli/main.c": '#include "../db.h"\n'},
        [("port/linux/clock.c", 3), ("src/cli/main.c", 1)]),
    "sqlite_header": (
        {"src/db.c": "#include <sqlite3.h>\n",
         "src/db.h": "#include <sqlite3.h>\n",
         "src/writer.c": "#include <sqlite3.h>\n"},
        [("src/db.h", 1), ("src/writer.c", 1)]),
    "sqlite_codes": (
        {"src/db.c": "int x = SQLITE_OK;\n",
         "src/writer.c": '/* SQLITE_BUSY */\nchar *s = "SQLITE_FULL";\n'
                         "int y = SQLITE_OK;\n"},
        [("src/writer.c", 3)]),
    "paho_header": (
        {"port/paho/paho.c": "#include <MQTTAsync.h>\n",
         "boards/host/app/main.c": "#include <MQTTAsync.h>\n"},
        [("boards/host/app/main.c", 1)]),
    "paho_traps": (
        {"port/paho/send.c": "/* packet_type */\nint a = d->packet_type;\n"
                             "int b = MQTTAsync_isConnected(h);\n"
                             "int c = MQTTAsync_send(h);\n",
         "port/paho/paho.c": "int d = MQTTClient_create(h);\n",
         "tests/x.c": "int e = d->packet_type;\n"},
        [("port/paho/send.c", 2), ("port/paho/send.c", 3),
         ("port/paho/paho.c", 1)]),
    "one_sender": (
        {"src/sender_send.c": "int a = t->ops->send(t, f, 1);\n",
         "src/worker.c": "int a = x->sends(1);\n"
                         "int b = t->ops->send(t, f, 1);\n",
         "tests/x.c": "int c = t->ops->send(t, f, 1);\n"},
        [("src/worker.c", 2)]),
    "unit_test": (
        {"src/db.c": SPDX, "src/db.h": SPDX, "src/mem.h": SPDX,
         "src/writer.c": SPDX, "src/cli/main.c": SPDX,
         "tests/unit/test_db.c": SPDX, "tests/unit/test_writer_open.c": SPDX},
        [("src/writer.c", 1)]),
    "public_names": (
        {"include/postbag/x.h":
            "POSTBAG_API int postbag_good(int x);\n"
            "POSTBAG_API int stray(void);\n"
            "int postbag_hidden(\n    int x);\n"
            "struct table {\n    int (*call)(void);\n};\n"
            "typedef int (*postbag_handler)(void);\n"},
        [("include/postbag/x.h", 2), ("include/postbag/x.h", 3)]),
    "banned_calls": (
        {"src/log.c": "/* time(NULL) */\nint a = t->time(c);\n"
                      "int b = time(0);\nchar *c = \"sleep(1)\";\n"
                      "int d = mono_time(0);\n",
         "port/linux/clock.c": "void f(void)\n{\n    usleep(1);\n}\n",
         "tests/unit/test_log.c": "int x = rand();\n"},
        [("src/log.c", 3), ("port/linux/clock.c", 3)]),
    "allocator_calls": (
        {"src/mem.c": "void *x = malloc(1);\n",
         "src/writer.c": "void *y = calloc(1, 1);\nint z = p->free(q);\n",
         "port/linux/gate.c": "void *z = malloc(1);\n"},
        [("src/writer.c", 1)]),
    "function_length": (
        {"src/writer.c": "int low(void)\n{\n" + "    step();\n" * 57 + "}\n"
                         + LONG_BODY},
        [("src/writer.c", 61)]),
    "file_length": (
        {"src/writer.c": "\n" * 501, "src/sender.c": "\n" * 500},
        [("src/writer.c", 501)]),
    "line_length": (
        {"src/writer.c": "x" * 80 + "\n" + "x" * 81 + "\n"},
        [("src/writer.c", 2)]),
    "error_codes": (
        {"include/postbag/x.h": "/* @return EBUSY, POSTBAG_EIO */\n"
                                "#define M(X) X(EBUSY, -201, \"b\") \\\n"
                                "    X(EFULL, -203, \"f\") \\\n"
                                "    X(EIO, -301, \"i\")\n"},
        [("include/postbag/x.h", 3)]),
    "board_values": (
        {"include/postbag/x.h": "#define M(X) X(U32, wide, 5, 2, 9, \"\", \\\n"
                                "    \"help\") X(STR, dir, \"a\", 1, 4, "
                                "\"\", \"help\")\n",
         "include/postbag/paho.h":
            "#define M(X) X(U32, keep, 5, 2, 9, \"\", \"help\")\n",
         "boards/b/board.conf": "# wide = 1\n[postbag]\nwide = 9\n"
                                "wide = 10\nwide = x\ndir = abcde\n"
                                "high = 1\nkeep = 2\n[mqtt]\nkeep = 2\n"},
        [("boards/b/board.conf", line) for line in (4, 5, 6, 7, 8)]),
    "leftovers": (
        {"src/writer.c": "int x;\n/* TO" "DO: later */\n",
         "tests/a.sh": "mktemp XX" "XXXX\n"},
        [("src/writer.c", 2)]),
    "licence_line": (
        {"src/writer.c": "int x;\n", "src/sender.c": SPDX,
         "tests/run": "#!/bin/bash\necho\n", "src/NOTES.md": "words\n"},
        [("src/writer.c", 1), ("tests/run", 1)]),
}

GOOD = {
    "src/README.md": "| 0 | `mem` |\n| 1 | `db` |\n| 2 | `inbox_store` |\n",
    "src/db.c": SPDX + '#include "db.h"\n#include <sqlite3.h>\n'
                '#include "mem.h"\nint db__open(void)\n{\n'
                "    return SQLITE_OK;\n}\n",
    "src/db.h": SPDX + "/* Floor 1. */\nstruct db;\n",
    "src/mem.h": SPDX + "/* Floor 0. */\n",
    "tests/unit/test_db.c": SPDX,
    "tests/unit/test_inbox_store.c": SPDX,
    "src/inbox_store.c": SPDX + '/* Floor 2. */\n#include "db.h"\n',
    "include/postbag/postbag.h":
        SPDX + "/* @return EIO */\n#define M(X) X(EIO, -301, \"i\")\n"
        'extern "C" {\nPOSTBAG_API int postbag_put(int x);\n}\n',
    "port/linux/clock.c": SPDX + "#include <time.h>\n"
                          '#include "postbag/port.h"\n',
}

BAD_CORE = "#include <stdio.h>\n#include <time.h>\n" \
    "long f(void);\nlong f(void) { printf(\"%d\\n\", 1); return time(0); }\n"
GOOD_CORE = "#include <stdio.h>\nint f(char *s);\n" \
    "int f(char *s) { return snprintf(s, 9, \"%d\", f(s)); }\n"


class Rules(unittest.TestCase):
    def test_each_rule_has_a_control(self):
        self.assertEqual(set(BAD), {rule.__name__ for rule in rules.ALL})

    def test_each_rule_finds_its_fault_and_no_other(self):
        for rule in rules.ALL:
            files, expected = BAD[rule.__name__]
            with self.subTest(rule=rule.__name__):
                found = {(path, line) for path, line, _ in rule(Tree(files))}
                self.assertEqual(found, set(expected))

    def test_public_names_tells_both_faults(self):
        files, _ = BAD["public_names"]
        self.assertEqual([m for _, _, m in rules.public_names(Tree(files))],
                         ["name of stray",
                          "postbag_hidden lacks POSTBAG_API"])

    def test_a_good_tree_is_clean(self):
        for rule in rules.ALL:
            with self.subTest(rule=rule.__name__):
                self.assertEqual(list(rule(Tree(GOOD))), [])

    def test_a_circle_of_same_floor_files_is_found(self):
        kept = floors.SAME_FLOOR
        floors.SAME_FLOOR = {"writer": ["sender"], "sender": ["writer"]}
        try:
            found = list(rules.floor_said(Tree({})))
        finally:
            floors.SAME_FLOOR = kept
        self.assertEqual(len(found), 2)


class Functions(unittest.TestCase):
    def test_definitions_and_prototypes_are_told_apart(self):
        source = Source("x.c", """
#define MACRO(x) { x }
static const struct s *const table[] = { { 1, f }, { 2, g } };
int proto(int x);
struct s { int (*call)(void); };
static int
wide(int a,
    int b)
{
    if (a) {
        b = call(a);
    }
    return b; /* } */
}
__attribute__((noreturn)) void end(void) { char c = '}'; stop(c); }
""")
        found = [(f.name, f.line, f.body_end) for f in source.functions()]
        self.assertEqual(found, [("proto", 4, 0), ("wide", 6, 14),
                                 ("end", 15, 15)])

    def test_an_include_in_a_comment_is_none(self):
        source = Source("x.c", '/*\n#include "a.h"\n*/\n#include "b.h"\n')
        self.assertEqual([i[2] for i in source.includes()], ["b.h"])


class Symbols(unittest.TestCase):
    def found_in(self, text):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "x.c")
            with open(source, "w", encoding="ascii") as file:
                file.write(text)
            subprocess.run([CC, "-O2", "-c", source, "-o", source + ".o"],
                           check=True)
            return [line.rsplit(" ", 1)[1]
                    for line in check_objects(NM, [source + ".o"])]

    def test_banned_symbols_are_found(self):
        self.assertEqual(self.found_in(BAD_CORE), ["printf", "time"])

    def test_snprintf_is_fine(self):
        self.assertEqual(self.found_in(GOOD_CORE), [])


if __name__ == "__main__":
    CC, NM = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
