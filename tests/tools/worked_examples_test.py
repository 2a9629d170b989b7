#!/usr/bin/env python3
"""docs/adding_*.md quote their worked examples: fails when a piece of C++, CUDA or TOML in one stands in no example."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
examples = {}
for file in sorted((root / "examples").iterdir()):
    # Line by line, without blank ones: a page may leave out what is between two sections of a TOML file.
    examples[file.name] = [line for line in file.read_text().splitlines() if line.strip()]
for page in sorted((root / "docs").glob("adding_*.md")):
    text = page.read_text()
    named = [name for name in examples if f"examples/{name}" in text]
    if not named:
        sys.exit(f"{page.name} names no file of examples/")
    for language, piece in re.findall(r"```(cpp|cuda|toml)\n(.*?)```", text, re.DOTALL):
        wanted = [line for line in piece.splitlines() if line.strip()]
        of_language = [examples[name] for name in examples if name.endswith("." + language.replace("cuda", "cu"))]
        if not any(lines[at:at + len(wanted)] == wanted for lines in of_language for at in range(len(lines))):
            sys.exit(f"{page.name}: no file of examples/ has this piece:\n{piece}")
