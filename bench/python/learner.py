#!/usr/bin/env python3
"""TD3 in PyTorch as a learner of a run (python/examples/td3_torch.py, by the wheel that python/build_wheel.sh makes): env
steps a second of cheetah-run while it learns, with one env actor, at an update an env step, which is CleanRL's ratio, and
at an update for each two."""
import csv
import pathlib
import subprocess
import sys
import tempfile

from wheel_rows import ROOT, main, report

BATCH, WARM_UP_STEPS, MINUTES, PATIENCE_S = 256, 2000, 0.4, 120
SETTINGS = [f"max_minutes={MINUTES}", f"td3.random_env_steps={WARM_UP_STEPS}", f"replay.min_items={WARM_UP_STEPS}", "replay.tolerance=0.1",
            "learner.kind=td3_torch", "actors.count=1", "metrics.every_s=1", "evaluator.every_learner_steps=1000000", "checkpoint.every_s=1000"]
UPDATES = {"td3_env_steps": 1, "td3_env_steps_half": 0.5}  # an env step


def env_steps_per_second(updates):
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder, "run")
        words = [word for setting in [*SETTINGS, f"replay.samples_per_insert={BATCH * updates}"] for word in ("--set", setting)]
        run = subprocess.run([sys.executable, ROOT / "python/examples/td3_torch.py", "train", "cheetah_run_td3", "--run-dir", directory, *words],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        if run.returncode != 0:
            sys.exit(f"the run failed: {run.stderr}")
        with (directory / "metrics.csv").open() as file:
            rows = [{name: float(row[name]) for name in ("wall_s", "env_steps", "learner_steps")} for row in csv.DictReader(file)]
        rows = [row for row in rows if row["learner_steps"] > 100]  # PyTorch is warm
        if len(rows) < 2:
            sys.exit(f"the run took too few steps in {MINUTES} minutes to be measured: {run.stderr}")
        return (rows[-1]["env_steps"] - rows[0]["env_steps"]) / (rows[-1]["wall_s"] - rows[0]["wall_s"])


def measure():
    for name, updates in UPDATES.items():
        report(name, env_steps_per_second(updates), "env steps/s")


if __name__ == "__main__":
    main(measure, __file__, env="torch")
