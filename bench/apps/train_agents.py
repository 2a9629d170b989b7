#!/usr/bin/env python3
"""Wall time of `troupe train` until SAC walks and TD3 runs, as train.py measures it, and what a step takes on the way: an
env step and the learner step that comes with it, once the steps with random actions are over."""
import csv
import pathlib
import tempfile

import agent_tasks
import train


def step_s(run):
    """Between the first row of metrics that has learner steps and the last one."""
    with (run / "metrics.csv").open(newline="") as file:
        rows = [(float(row["wall_s"]), int(row["learner_steps"] or 0)) for row in csv.DictReader(file)]
    (first_s, first), (last_s, last) = next(row for row in rows if row[1] > 0), rows[-1]
    return (last_s - first_s) / (last - first)


def main():
    for task in agent_tasks.TASKS:
        with tempfile.TemporaryDirectory() as folder:
            no_limit = ["--set", "max_env_steps=0"]
            summary, _ = train.until(task.threshold, task.config, no_limit, folder, agent_tasks.LIMIT_S)
            # A summary has the wall time of each multiple of 100.
            wall_s = summary["first_reached"].get(str(task.threshold))
            task.report(wall_s, step_s(pathlib.Path(folder, "run")), summary["version"])


if __name__ == "__main__":
    main()
