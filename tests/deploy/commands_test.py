#!/usr/bin/env python3
"""Every command of the program that README.md and the pages on deployment show: its options, the keys that it sets and the
files that it names exist. Whether it does what they say, other tests try."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))
PAGES = ["README.md", "docs/deploy.md", "docs/sweeps.md", "docs/security.md", "docs/ray.md", "docs/faults.md", "deploy/slurm/troupe.sbatch",
         "deploy/kubernetes/run.yaml", "deploy/kubernetes/actors.yaml", "deploy/kubernetes/jobset.yaml"]
COMMAND = re.compile(r"(?:\./|\b)troupe (?!test\b|bench\b)([a-z]+(?: [^`|;\n]*)?)")


def said(*arguments):
    return subprocess.run([TROUPE, *arguments], capture_output=True, text=True, timeout=30, check=True).stdout


def code_of(page):
    """The page's code; for anything but Markdown its comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".md"):
        return re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) + re.findall(r"`([^`\n]+)`", text)
    return [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]


def commands_of(page):
    found = set()
    for code in code_of(page):
        for line in code.splitlines():
            for match in COMMAND.finditer(line.split(" #")[0]):
                if re.match(r"(\./|troupe )", line[match.start():]):
                    found.add(match[1].strip())
    return sorted(found)


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.subcommands = set(re.findall(r"^  ([a-z]+) ", said("--help"), re.MULTILINE))
        cls.keys = set(re.findall(r"^([a-z_.]+)$", said("config", "--explain"), re.MULTILINE))
        cls.options = {name: set(re.findall(r"--[a-z-]+", said(name, "--help"))) for name in cls.subcommands}

    def test_are_those_of_the_program(self):
        count = 0
        for page in PAGES:
            if not (ROOT / page).exists():
                continue
            for command in commands_of(page):
                with self.subTest(page=page, command=command):
                    words = shlex.split(command)
                    self.assertIn(words[0], self.subcommands)
                    for word in words[1:]:
                        if word.startswith("--"):
                            self.assertIn(word.split("=")[0], self.options[words[0]])
                        if re.match(r"(apps|deploy)/[^A-Z]*$", word):
                            self.assertTrue((ROOT / word).exists(), word)
                    for key in re.findall(r"--set[ =]([a-z_.]+)=", command):
                        self.assertIn(key, self.keys)
                    count += 1
        self.assertGreater(count, 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
