#!/usr/bin/env python3
"""Wall time of `troupe train` until the policy solves cartpole-swingup: from the start of the run to the end of the
first evaluation with a mean return of 800. The run is asked to end there; its summary has the time."""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import cartpole_task as task

POLL_S = 0.2
END_S = 120  # for the last checkpoint of a run that was asked to end


def returns(run):
    """Mean returns of the evaluations that there are so far."""
    if not (run / "evaluations.csv").exists():
        return []
    with (run / "evaluations.csv").open(newline="") as file:
        return [float(row["return"]) for row in csv.DictReader(file) if row.get("return")]


def until(threshold, config, arguments, folder, limit_s):
    """Trains in `folder` until an evaluation has that mean return, or as long as is allowed: summary.json, and the best
    mean return that there was, or None."""
    run = pathlib.Path(folder, "run")
    command = [task.PROGRAM, "train", config, "--quiet", "--run-dir", run, *arguments]
    process = subprocess.Popen(command + ["--max-minutes", str(limit_s / 60)], stdout=sys.stderr)
    try:
        while process.poll() is None and max(returns(run), default=0) < threshold:
            time.sleep(POLL_S)
        process.terminate()
        process.wait(END_S)
    finally:
        process.kill()
    if process.returncode != 0:
        sys.exit(f"troupe train: exit status {process.returncode}")
    return json.loads((run / "summary.json").read_text()), max(returns(run), default=None)


def main():
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        summary, best = until(task.THRESHOLD, task.CONFIG, [], folder, task.LIMIT_S)
        wall_s = summary["first_reached"].get(str(task.THRESHOLD))
        if wall_s is None:
            task.not_reached(best, time.monotonic() - start)
        task.report(wall_s, summary["version"])


if __name__ == "__main__":
    main()
