#!/usr/bin/env python3
"""How soon faults are noticed and repaired, in the real program over processes: scenarios of tests/faults, one trial of
each, with a new seed at every run. A row is a time from the fault, its limit what docs/faults.md promises."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ["F1_env_actor_killed", "F2_learner_killed", "F3_replay_killed", "F5_chief_killed", "F7_stopped_for_10_s"]


def main():
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, ROOT / "tests/faults/run_scenarios.py", *SCENARIOS, "--out", out]
        done = subprocess.run([*command, "--seed", str(int(time.time()) % 1_000_000)], stdout=subprocess.PIPE, text=True)
        wrong = [line.strip() for line in done.stdout.splitlines() if "WRONG" in line or "SKIPPED" in line]
        if done.returncode != 0 or wrong:
            sys.exit(wrong[0] if wrong else "a scenario did not hold")
        for scenario in SCENARIOS:
            (report,) = pathlib.Path(out).glob(f"{scenario}-*/result.json")
            for one in json.loads(report.read_text())["measurements"]:
                row = {"name": f"{scenario}: {one['what']}", "value": one["seconds"], "unit": "s", "version": ""}
                print(json.dumps(row | {"limits": {"limit": one["limit_s"]}}))


if __name__ == "__main__":
    main()
