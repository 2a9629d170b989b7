#!/usr/bin/env python3
"""The return that D4PG on cartpole-swingup reaches with 1, 2 and 4 learners, which share a batch of 256, after equally
many learner steps: in one process, and with a process for each learner. A group loses the learner that publishes on the
way, and gets it back: it fails, or its process is killed (kill -9).

    ./troupe bench learner_group                            a repeat for each seed; rows are the last returns
    python3 bench/apps/learner_group.py --seeds 1 2 3       the same as a table, with returns on the way and wall times
"""
import argparse
import csv
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TROUPE_BIN_DIR", ROOT / "build" / "release" / "bin"))
CONFIG = ROOT / "bench" / "apps" / "learner_group.toml"
COUNTS = (1, 2, 4)
RUN_S = 900  # a run that takes longer is given up
POLL_S = 0.1


class Failed(Exception):
    """What was expected of a run and did not happen."""


def settings(learners, seed, steps):
    every = max(steps // 12, 1)
    return [f"learner.count={learners}", f"seed={seed}", f"max_learner_steps={steps}",
            f"evaluator.every_learner_steps={every}"]


def in_threads(learners, seed, steps):
    """{"returns": [[learner steps, return], ...], "wall_s"}; the last is of the final parameters."""
    command = [BIN / "learner_group_threads", CONFIG, *settings(learners, seed, steps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S)
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    result = json.loads(done.stdout)
    if learners > 1 and result["came_back"] != 1:
        raise Failed(f"the learner that failed came back {result['came_back']} times, expected once")
    return result


def learner_steps(run):
    """Of the newest row of metrics."""
    try:
        with (run / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError:
        return 0
    return int(rows[-1]["learner_steps"] or 0) if rows else 0


def process_of(node, run):
    """Its process id."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has just ended
            continue
        if "node" in argv and ("--name", node) in zip(argv, argv[1:]) and str(run) in argv:
            return int(entry.name)
    raise Failed(f"{node} has no process")


def group_sizes(log):
    """How many learners each epoch has had that was announced."""
    return [names.count("learner-") for names in re.findall(r"group learner: epoch \S+ of (.*)", log)]


def in_processes(learners, seed, steps):
    """As in_threads()."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        words = settings(learners, seed, steps) + [f"placement.learner.nodes={learners}"]
        command = [BIN / "troupe", "train", CONFIG, "--processes", "--run-dir", run]
        with pathlib.Path(folder, "out").open("w+") as out:
            process = subprocess.Popen(command + [word for one in words for word in ("--set", one)], stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            try:
                until, killed = time.monotonic() + RUN_S, learners == 1
                while process.poll() is None:
                    if time.monotonic() > until:
                        raise Failed(f"it has not ended after {RUN_S} s")
                    if not killed and learner_steps(run) >= steps // 4:
                        os.kill(process_of("learner-0", run), signal.SIGKILL)
                        killed = True
                    time.sleep(POLL_S)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    time.sleep(0.2)
                    process.send_signal(signal.SIGINT)
                    process.wait(30)
            out.seek(0)
            log = out.read()
        if process.returncode != 0:
            raise Failed(f"exit status {process.returncode}: {log[-300:]}")
        sizes = group_sizes(log)
        if learners > 1 and sizes != [learners, learners - 1, learners]:
            raise Failed(f"the group's epochs were of {sizes}, expected one learner to go and to come back")
        with (run / "evaluations.csv").open(newline="") as file:
            returns = [[int(row["step"]), float(row["return"])] for row in csv.DictReader(file)]
        return {"returns": returns, "wall_s": json.loads((run / "summary.json").read_text())["wall_s"]}


def return_at(result, steps):
    """The median of the last three evaluations until then: a single one may fall into a dip."""
    return statistics.median([value for at, value in result["returns"] if at <= steps][-3:])


MODES = {"threads": in_threads, "processes": in_processes}


def measure(seeds, steps, modes=tuple(MODES), counts=COUNTS):
    """{(mode, learners): [a result for each seed]}"""
    results = {}
    for seed in seeds:
        for mode in modes:
            for learners in counts:
                try:
                    result = MODES[mode](learners, seed, steps)
                except (Failed, OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
                    raise Failed(f"{learners} learners in {mode}, seed {seed}: {error}") from None
                curve = " ".join(f"{value:.0f}" for _, value in result["returns"])
                print(f"{mode}, {learners} learners, seed {seed}: {result['wall_s']:.0f} s: {curve}", file=sys.stderr,
                      flush=True)
                results.setdefault((mode, learners), []).append(result)
    return results


def table(results, steps):
    """A line for each number of learners: median (least to greatest) over the seeds."""
    def spread(values):
        return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"

    marks = [steps // 4, steps // 2, steps]
    lines = ["| learners | return after " + " | after ".join(f"{at} steps" for at in marks) + " | wall time |",
             "|---|" + "---|" * (len(marks) + 1)]
    for (mode, learners), runs in results.items():
        cells = [spread([return_at(run, at) for run in runs]) for at in marks]
        walls = [run["wall_s"] for run in runs]
        lines.append(f"| {learners} in {mode} | " + " | ".join(cells) + f" | {statistics.median(walls):.0f} s |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", help="print a table over these seeds")
    parser.add_argument("--steps", type=int, default=24000, help="learner steps of each run")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    options = parser.parse_args()
    try:
        if options.seeds:
            print(table(measure(options.seeds, options.steps, options.modes), options.steps))
            return
        seed = 1 + int(os.environ.get("TROUPE_BENCH_REPEAT", "0"))
        results = measure([seed], options.steps, options.modes)
    except Failed as error:
        sys.exit(str(error))
    version = subprocess.run([BIN / "troupe", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    one = return_at(results["threads", 1][0], options.steps)
    for (mode, learners), (result,) in results.items():
        row = {"name": f"return_{learners}_{mode}", "value": return_at(result, options.steps), "unit": "return"}
        print(json.dumps(row | {"version": version, "limits": {"one_learner": one}}))


if __name__ == "__main__":
    main()
