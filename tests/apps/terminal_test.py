#!/usr/bin/env python3
"""What somebody sees who types `troupe train` or `troupe sweep` in a terminal: one line within its width that messages do not
tear, colors only where they are wanted, and at the end what was learnt, where it is and what to type next.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/apps/terminal_test.py     exit status 77 where there are no terminals
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
import pseudo_terminal  # noqa: E402

PROGRAM = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))
DRAWN = re.compile(r"\r([^\r\n\x1b]*)\x1b\[K")


class InATerminal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on_terminal(self, *arguments, columns=60, stop_at=None, **variables):
        """All that it writes to a terminal of that width. At the text stop_at it is asked to end."""
        ours, its = pseudo_terminal.opened(columns)
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | variables
        process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=environment,
                                   cwd=self.folder)
        os.close(its)
        written = b""
        while chunk := pseudo_terminal.read(ours):
            written += chunk
            if stop_at and stop_at.encode() in written:
                process.send_signal(signal.SIGINT)
                stop_at = None
        os.close(ours)
        self.assertEqual(process.wait(timeout=60), 0, written.decode())
        return written.decode().replace("\r\n", "\n")

    def test_a_run_is_one_line_that_a_message_does_not_tear(self):
        shown = self.run_on_terminal("train", "cartpole_swingup", "--max-minutes", "1", "--run-dir", "run", stop_at="learner ")
        drawn = DRAWN.findall(shown)
        self.assertTrue(any(re.match(r"[\d.hms]+ \([\d.hms]+ left\)  .*env ", line) for line in drawn), drawn)
        self.assertLess(max(map(len, drawn)), 60)
        # The message takes the line's place, in colors, and the line itself is ended before the summary.
        self.assertRegex(shown, r"\r\x1b\[K\d\d:\d\d:\d\d\.\d+ \x1b\[[0-9;m\x1b\[]*I\x1b\[m TRP-I001 [^\r]*\n")
        self.assertRegex(shown, r"\n  final return +\d[^\n]*\n")
        self.assertRegex(shown, r"\n  recorded in +run\n  look at it +troupe watch run\n$")

    def test_a_dumb_terminal_and_one_without_colors_get_none(self):
        arguments = ["train", "cartpole_swingup", "--max-minutes", "0.02"]
        self.assertNotIn("\x1b", self.run_on_terminal(*arguments, "--run-dir", "dumb", TERM="dumb"))
        shown = self.run_on_terminal(*arguments, "--run-dir", "plain", NO_COLOR="1")
        self.assertEqual(set(re.findall(r"\x1b\[[0-9;]*[a-zA-Z]", shown)), {"\x1b[K"})

    def test_a_sweep_is_one_line_and_then_its_table(self):
        shown = self.run_on_terminal("sweep", "cartpole_swingup", "--seeds", "1..2", "--jobs", "2", "--set", "max_minutes=0.1",
                                     "--set", "metrics.every_s=0.2", "-o", "sweep")
        drawn = DRAWN.findall(shown)
        self.assertTrue(any(re.match(r"\[[01]/2\] [\d.hms]+ \(about [\d.hms]+ left\)", line) for line in drawn), drawn)
        self.assertLess(max(map(len, drawn)), 60)
        self.assertRegex(shown, r"(\n|\x1b\[K)\[2/2\] cartpole_swingup, max_minutes=0\.1, metrics\.every_s=0\.2, seed \d: "
                                r"return [\d.]+ after [\d.k]+ env steps, [\d.hms]+\n")
        self.assertRegex(shown, r"\ncartpole-swingup +max_minutes=0\.1, metrics\.every_s=0\.2 +2 +\d")
        self.assertTrue(shown.endswith("\nresults: sweep/sweep.html\nlook at it: troupe watch sweep\n"), shown)


if __name__ == "__main__":
    if pseudo_terminal.opened(80) is None:
        print(f"skipped: {pseudo_terminal.MISSING}")
        sys.exit(77)
    unittest.main(verbosity=2)
