#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the table of proofs notice what is missing in it?"""
import contextlib
import io
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "stages"))
import proof  # noqa: E402

proof.wanted = lambda: {"F1_one": "the first", "F2_two": "the second"}
GOOD = ["proof: F1_one trials=100 seeds=1..50",
        "proof: F1_one trials=50 seeds=51..60",
        "control: F1_one lie hits=3 trials=20",
        "proof: F2_two trials=7 seeds=0..0"]


class Table(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def call(self, function, *arguments):
        """(exit code, what was printed)"""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = function(*arguments)
        return code, out.getvalue()

    def table(self, lines):
        return self.call(proof.table,
                         [self.file("tests.log", "\n".join(lines))])

    def test_all_rows_pass_and_are_summed_up(self):
        code, text = self.table(GOOD)
        self.assertEqual(code, 0)
        self.assertIn("150 trials", text)
        self.assertIn("2.0e-02", text)
        self.assertIn("lie 3/20", text)

    def test_control_without_a_hit_fails(self):
        code, text = self.table(GOOD[:2] + GOOD[3:] + [
            "control: F1_one lie hits=0 trials=20"])
        self.assertEqual(code, 1)
        self.assertIn("noticed nothing", text)

    def test_row_that_nobody_spoke_of_fails(self):
        code, text = self.table(GOOD[:3])
        self.assertEqual(code, 1)
        self.assertIn("F2_two: nothing was shown", text)

    def test_row_without_a_trial_fails(self):
        code, _ = self.table(GOOD[:3] + ["proof: F2_two trials=0 seeds=0..0"])
        self.assertEqual(code, 1)

    def test_row_that_no_line_names_fails(self):
        code, text = self.table(GOOD + ["proof: F3_x trials=1 seeds=0..0"])
        self.assertEqual(code, 1)
        self.assertIn("F3_x", text)

    def keep(self, code, xml=""):
        result = os.path.join(self.folder.name, "a.json")
        log = self.file("a.log", "\n".join(GOOD))
        files = [log] + ([self.file("tests.xml", xml)] if xml else [])
        kept = self.call(proof.keep, result, "a", code, "5", *files)
        return kept, proof.load(result)

    def test_result_that_is_kept_has_passed(self):
        (code, _), result = self.keep("0")
        self.assertEqual(code, 0)
        self.assertTrue(result["passed"])
        self.assertEqual(result["lines"], GOOD)

    def test_result_of_a_command_that_failed_has_not(self):
        _, result = self.keep("1")
        self.assertFalse(result["passed"])

    def test_result_with_a_test_that_failed_has_not(self):
        (code, text), result = self.keep(
            "0", '<s><testcase name="x" status="fail"/></s>')
        self.assertEqual(code, 1)
        self.assertIn("failed: x", text)
        self.assertFalse(result["passed"])


if __name__ == "__main__":
    unittest.main()
