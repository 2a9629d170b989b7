#!/usr/bin/env python3
"""The README shows the programs of examples/ whole: fails when one of them was changed without the other."""
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
readme = (root / "README.md").read_text()
for name, lines in {"hello_topology": 100, "hello_replica": 80}.items():
    example = (root / f"examples/{name}.cpp").read_text().rstrip()
    if f"```cpp\n{example}\n```" not in readme:
        sys.exit(f"README.md does not quote examples/{name}.cpp word for word: copy it again")
    if len(example.splitlines()) >= lines:
        sys.exit(f"examples/{name}.cpp has {len(example.splitlines())} lines, expected under {lines}: it is one page")
