#!/usr/bin/env python3
"""The README shows apps/hello_topology.cpp whole: fails when one of the two was changed without the other."""
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
example = (root / "apps/hello_topology.cpp").read_text().rstrip()
if f"```cpp\n{example}\n```" not in (root / "README.md").read_text():
    sys.exit("README.md does not quote apps/hello_topology.cpp word for word: copy it again")
if len(example.splitlines()) >= 100:
    sys.exit(f"apps/hello_topology.cpp has {len(example.splitlines())} lines, expected under 100: it is one page")
