#!/usr/bin/env python3
"""Tests of tools/test_report.py: what counts as failed and as skipped, and that each reason to skip is said once."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/test_report.py"
sys.path.insert(0, str(TOOL.parent))
sys.dont_write_bytecode = True
from test_report import report  # noqa: E402


def case(name, status="run", output="", skipped=None):
    made = xml.etree.ElementTree.Element("testcase", name=name, status=status)
    if skipped:
        xml.etree.ElementTree.SubElement(made, "skipped", message=skipped)
    xml.etree.ElementTree.SubElement(made, "system-out").text = output
    return made


def script(name, why):
    return case(name, "notrun", f"test_it ... skipped 'x'\nSKIPPED HostTest.test_it: {why}\n", "SKIP_RETURN_CODE=77")


def gtest(name, why):
    output = f"[ RUN      ] {name}\n/a/b_test.cpp:22: Skipped\n{why}\n[  SKIPPED ] {name} (0 ms)\n[  SKIPPED ] {name}\n"
    return case(name, "notrun", output, "SKIP_REGULAR_EXPRESSION_MATCHED")


class ReportTest(unittest.TestCase):
    def test_each_reason_is_one_line_with_the_tests_in_groups(self):
        no_hosts = "needs hosts: unshare: unshare failed: Operation not permitted (no right: ask)"
        cases = [script("faults.network.HostTest.test_a", no_hosts), script("faults.network.RateTest.test_b", no_hosts),
                 script("deploy.demo", no_hosts), gtest("Convolution.Packs", "only oneDNN packs"),
                 gtest("Conf/Gemm.Sums/0", "only oneDNN packs"), gtest("Conf/Gemm.Sums/1", "only oneDNN packs"),
                 case("Table.Inserts")]
        self.assertEqual(report(cases, ""), ([
            f"skipped, {no_hosts}: faults.network.* (2), deploy.demo",
            "skipped, only oneDNN packs: Convolution.Packs, Conf/Gemm.* (2)",
            "1 passed, 0 failed, 6 skipped"], True))

    def test_what_has_no_reason_says_so(self):
        cases = [case("a", "disabled"), gtest("S.T", ""), case("b", "notrun", "", "SKIP_RETURN_CODE=77"), case("c")]
        self.assertEqual(report(cases, "")[0], ["skipped, no reason given: S.T, b", "skipped, disabled: a",
                                                "1 passed, 0 failed, 3 skipped"])

    def test_a_program_that_is_missing_is_a_failure(self):
        lines = report([case("gone", "notrun", "", "Unable to find executable"), case("good")], "")
        self.assertEqual(lines, (["1 passed, 1 failed"], False))

    def test_a_run_without_a_test_that_passed_is_none(self):
        self.assertEqual(report([], ""), (["0 passed, 0 failed"], False))
        self.assertFalse(report([gtest("S.T", "why")], "")[1])

    def test_who_passed_at_the_second_try_is_named(self):
        log = "1/2 Test #1: S.Late ......***Failed 1 sec\n2/2 Test #2: S.Bad .....***Timeout\n2/2 Test #2: S.Bad ...***Failed"
        lines, good = report([case("S.Late"), case("S.Bad", "fail")], log)
        self.assertEqual(lines, ["passed at the second try: S.Late", "1 passed, 1 failed"])
        self.assertFalse(good)

    def test_the_command_reads_files_and_its_exit_status_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "log").write_bytes(b"\xff")
            for status, expected in ("run", 0), ("fail", 1):
                suite = xml.etree.ElementTree.Element("testsuite")
                suite.append(case("S.T", status))
                xml.etree.ElementTree.ElementTree(suite).write(path / "report.xml")
                done = subprocess.run([sys.executable, "-B", TOOL, path / "report.xml", path / "log"], capture_output=True,
                                      text=True, check=False, timeout=30)
                self.assertEqual(done.returncode, expected, done.stderr)
                self.assertRegex(done.stdout.splitlines()[-1], r"^\d passed, \d failed$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
