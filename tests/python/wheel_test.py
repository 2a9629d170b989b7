#!/usr/bin/env python3
"""Builds the wheel and installs it into a folder, where using_test.py then runs with the wheel's own Python."""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def main():
    made = subprocess.run([ROOT / "tools" / "python_env.sh", "wheel"], stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        print("its Python environment could not be made")
        return SKIPPED
    python = made.stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        built = subprocess.run([ROOT / "python" / "build_wheel.sh", f"{folder}/wheel"], stdout=subprocess.PIPE, text=True)
        if built.returncode != 0:
            return built.returncode
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
        subprocess.run([python, *install, "--target", f"{folder}/site", built.stdout.strip()], check=True)
        environment = os.environ | {"PYTHONPATH": f"{folder}/site", "TROUPE_SITE": f"{folder}/site"}
        environment.pop("TROUPE_DM_CONTROL_DIR", None)  # the wheel has its own
        return subprocess.run([python, "-B", ROOT / "tests/python/using_test.py", *sys.argv[1:]], env=environment, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
