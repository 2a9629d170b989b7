#!/usr/bin/env python3
"""Fails when a link of README.md leads nowhere, when README is no longer read in three minutes, or when an example is longer
than the page that README says it is."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
readme = (root / "README.md").read_text()
words = sum(any(letter.isalnum() for letter in word) for word in readme.split())  # bars of tables are none
if words > 1100:
    sys.exit(f"README.md has {words} words, expected at most 1,100: results go to bench/README.md, the rest to docs/")
for target in re.findall(r"\]\(([^)#:]+)", readme):
    if not (root / target).exists():
        sys.exit(f"README.md links to {target}, which is not there")
for name in ("hello_topology", "hello_replica", "hello_agent"):
    lines = len((root / f"examples/{name}.cpp").read_text().splitlines())
    if f"examples/{name}.cpp" not in readme:
        sys.exit(f"README.md does not name examples/{name}.cpp")
    if lines >= 100:
        sys.exit(f"examples/{name}.cpp has {lines} lines, expected under 100: it is one page")
