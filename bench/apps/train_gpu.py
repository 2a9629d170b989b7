#!/usr/bin/env python3
"""Wall time of `troupe train` with the learner on a GPU until cartpole-swingup returns 800, cheetah-run 600 and
walker-walk 900, as train.py measures it. All cores but two have an env actor; each repeat has a seed of its own; what the
configurations say otherwise stays (walker-walk has cheetah-run's). `aim` is what is hoped for on 16 cores.

Of each run its learning curve and summary.json, which has its env and learner steps, go to $TROUPE_BENCH_FILES, or else to
build/release/bench/train_gpu.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import cartpole_task
import train

sys.path.insert(0, str(cartpole_task.ROOT / "bench"))
from gpu_rows import TRIAL

DEVICE = os.environ["TROUPE_BENCH_DEVICE"]
CONFIGS = cartpole_task.ROOT / "apps" / "configs"
FILES = pathlib.Path(os.environ.get("TROUPE_BENCH_FILES", cartpole_task.ROOT / "build" / "release" / "bench" / "train_gpu"))
LIMIT_S = 1800  # of one run
TASKS = (  # task, configuration, mean return, seconds that are aimed at
    ("cartpole-swingup", "cartpole_swingup", 800, 15),
    ("cheetah-run", "cheetah_run", 600, 60),
    ("walker-walk", "cheetah_run", 900, 60),
)


def settings(task):
    cores = len(os.sched_getaffinity(0))
    seed = 1 + int(os.environ.get("TROUPE_BENCH_REPEAT", "0"))
    chosen = [f"env={task}", f"seed={seed}", f"learner.device={DEVICE}", f"actors.count={max(cores - 2, 1)}",
              "max_env_steps=0"]
    if TRIAL:  # to the end of some steps instead of a return
        chosen[3:] = ["actors.count=1", "max_env_steps=3000", "learner.batch_size=16", "d4pg.policy_layers=[16]",
                      "d4pg.critic_layers=[16]", "replay.min_items=300", "replay.samples_per_insert=0.5",
                      "evaluator.episodes=1", "evaluator.every_learner_steps=50"]
    return [argument for setting in chosen for argument in ("--set", setting)]


def main():
    FILES.mkdir(parents=True, exist_ok=True)
    for task, config, threshold, aim_s in TASKS:
        name = f"{'trial_' * TRIAL}{task.replace('-', '_')}_to_{threshold}"
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            summary, best = train.until(threshold, CONFIGS / f"{config}.toml", settings(task), folder, LIMIT_S)
            for file, end in (("learning_curve.svg", "svg"), ("summary.json", "json")):
                shutil.copy(pathlib.Path(folder, "run", file), FILES / f"{name}.{end}")
        wall_s = summary["wall_s"] if TRIAL else summary["first_reached"].get(str(threshold))
        if wall_s is None:
            reached = "there was no evaluation" if best is None else f"the best evaluation had {best:.1f}"
            sys.exit(f"{task}: a mean return of {threshold} was not reached in {time.monotonic() - start:.0f} s: {reached}")
        row = {"name": name, "value": wall_s, "unit": "s", "version": summary["version"], "limits": {"aim": aim_s}}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
