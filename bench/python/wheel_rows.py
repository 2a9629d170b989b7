"""What Troupe's sides from Python share: rates, rows, and the wheel that python/build_wheel.sh makes."""
import importlib.metadata
import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def per_second(call, each, calls_between_clocks, seconds):
    """Units a second of `call`, which handles `each` at once."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(calls_between_clocks):
            call()
        calls += calls_between_clocks
    return each * calls / (time.perf_counter() - start)


def report(name, value, unit, version=None, **others):
    """version: of a rival."""
    row = {"name": name, "value": value, "unit": unit, "version": version or importlib.metadata.version("troupe")}
    print(json.dumps(row | others), flush=True)


def main(measure, file, env="wheel"):
    """measure() with the wheel: in this process where it is installed, else in one that with_wheel.sh starts on `file` with the
    Python of an environment of tools/python."""
    if "TROUPE_SITE" in os.environ:
        measure()
    else:
        subprocess.run([ROOT / "python/with_wheel.sh", "--env", env, file], check=True)
