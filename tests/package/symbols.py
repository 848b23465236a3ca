#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shared libraries export what the headers promise, and nothing else.

    symbols.py NM READELF PREFIX
"""
import glob
import os
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lint"))
from csource import Source  # noqa: E402

LIBRARY_OF_HEADER = {"linux": "postbag_linux", "paho": "postbag_paho"}
NODE = "POSTBAG_0.1"


def promised():
    """{library: names} as the installed headers say."""
    names = {"postbag": set(), "postbag_linux": set(), "postbag_paho": set()}
    for path in glob.glob(f"{PREFIX}/include/postbag/*.h"):
        stem = os.path.basename(path)[:-2]
        with open(path, encoding="utf-8") as file:
            functions = Source(path, file.read()).functions()
        names[LIBRARY_OF_HEADER.get(stem, "postbag")] |= {
            function.name for function in functions}
    return names


def library(name):
    found = glob.glob(f"{PREFIX}/lib/**/lib{name}.so", recursive=True)
    assert len(found) == 1, found
    return found[0]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout


class Symbols(unittest.TestCase):
    def test_each_library_exports_what_its_headers_promise(self):
        for name, expected in promised().items():
            with self.subTest(library=name):
                self.assertTrue(expected)
                lines = output(NM, "-D", "--defined-only", "--with-symbol-"
                               "versions", library(name)).splitlines()
                exported = {line.split()[-1] for line in lines
                            if " A " not in line}
                self.assertEqual(exported, {f"{function}@@{NODE}"
                                            for function in expected})

    def test_the_soname_is_the_major_version(self):
        for name in promised():
            with self.subTest(library=name):
                dynamic = output(READELF, "-d", library(name))
                soname = re.search(r"SONAME.*\[(.*)\]", dynamic).group(1)
                self.assertEqual(soname, f"lib{name}.so.0")


if __name__ == "__main__":
    NM, READELF, PREFIX = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])
