#!/usr/bin/env python3
"""`troupe sweep` and `troupe compare` with the built program: a grid that is killed halfway and goes on, whose table is
computed once more here from what the runs recorded; runs that fail; command lines that are wrong.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/apps/sweep_test.py
"""

import csv
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))
# Small networks: 4000 env steps with two samples an insert take 0.2 s.
CONFIG = """env = "{env}"
max_env_steps = {steps}
[d4pg]
policy_layers = [16]
critic_layers = [16]
atoms = 11
[learner]
batch_size = 16
[replay]
min_items = 100
samples_per_insert = {ratio}
tolerance = 1
[evaluator]
episodes = 1
every_learner_steps = {every}
[checkpoint]
every_s = 1
[metrics]
every_s = 0.2
"""


def trimmed_mean(values):
    """scipy.stats.trim_mean(values, 0.25)."""
    values = sorted(values)
    cut = int(0.25 * len(values))
    return statistics.fmean(values[cut:len(values) - cut])


def percentile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def wait_until(condition, what, timeout_s=60):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"no {what} in {timeout_s} s")
        time.sleep(0.05)


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, env="cartpole-swingup", steps=4000, ratio=2, every=500):
        (self.folder / name).write_text(CONFIG.format(env=env, steps=steps, ratio=ratio, every=every),
                                         encoding="utf-8")

    def command(self, *arguments):
        return [PROGRAM, *map(str, arguments)]

    def troupe(self, *arguments):
        return subprocess.run(self.command(*arguments), cwd=self.folder, capture_output=True, text=True, timeout=100,
                              check=False)

    def start(self, *arguments):
        """In a process group of its own, with what it says in the file `said`."""
        with open(self.folder / "said", "w", encoding="utf-8") as said:
            child = subprocess.Popen(self.command(*arguments), cwd=self.folder, stdout=said, stderr=said,
                                     start_new_session=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def left_behind(self):
        """Processes of a run that is in this test's folder."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = process.read_bytes().split(b"\0")
                where = os.readlink(process.parent / "cwd")
            except OSError:
                continue
            if b"train" in words and where == str(self.folder):
                found.append(process.parent.name)
        return found

    def run_named(self, sweep, name):
        return self.folder / sweep / "runs" / name

    def reason(self, run):
        summary = run / "summary.json"
        return json.loads(summary.read_text())["stop_reason"] if summary.exists() else None

    def check_table(self, sweep, groups, at):
        """groups: (task, setting) -> runs. The columns of table.csv, computed anew."""
        table = {(row["task"], row["setting"]): row for row in rows_of(self.folder / sweep / "table.csv")}
        self.assertEqual(set(table), set(groups))
        rng = random.Random(5)
        for key, runs in groups.items():
            row = table[key]
            returns = [[(float(line["env_steps"]), float(line["wall_s"]), float(line["return"]))
                        for line in rows_of(run / "evaluations.csv")] for run in runs]
            finals = [run[-1][2] for run in returns]
            self.assertEqual(int(row["runs"]), len(runs))
            self.assertAlmostEqual(float(row["return_mean"]), statistics.fmean(finals), 6)
            self.assertAlmostEqual(float(row["return_std"]), statistics.stdev(finals), 6)
            self.assertEqual(float(row["return_min"]), min(finals))
            self.assertEqual(float(row["return_max"]), max(finals))
            self.assertAlmostEqual(float(row["return_iqm"]), trimmed_mean(finals), 6)
            resampled = [trimmed_mean(rng.choices(finals, k=len(finals))) for _ in range(4000)]
            spread = max(finals) - min(finals)
            for column, share in ("return_iqm_low", 0.025), ("return_iqm_high", 0.975):
                self.assertAlmostEqual(float(row[column]), percentile(resampled, share), delta=0.1 * spread + 1e-9)
            threshold = float(row["threshold"])
            first = [next((point for point in run if point[2] >= threshold), None) for run in returns]
            self.assertEqual(int(row["threshold_reached"]), sum(point is not None for point in first))
            for column, index in ("threshold_env_steps", 0), ("threshold_wall_s", 1):
                middle = statistics.median([point[index] if point else math.inf for point in first])
                if math.isinf(middle):
                    self.assertEqual(row[column], "")
                else:
                    self.assertAlmostEqual(float(row[column]), middle, 6)
            for steps in at:
                values = []
                for run in returns:
                    after = next(i for i, point in enumerate(run) if point[0] > steps)
                    (x0, _, y0), (x1, _, y1) = run[after - 1], run[after]
                    values.append(y0 + (steps - x0) / (x1 - x0) * (y1 - y0))
                self.assertAlmostEqual(float(row[f"return_at_{steps}"]), statistics.fmean(values), 6)
            ends = [rows_of(run / "metrics.csv")[-1] for run in runs]
            rates = [float(end["env_steps"]) / float(end["wall_s"]) for end in ends]
            self.assertAlmostEqual(float(row["env_steps_per_s"]) / statistics.fmean(rates), 1, 6)

    def test_a_sweep_that_is_stopped_and_killed_goes_on_and_its_table_is_that_of_its_runs(self):
        self.write("tiny.toml", steps=30000, ratio=64, every=5000)  # some 5 s, alone
        grid = ["sweep", "tiny.toml", "--seeds", "1..2", "--set", "d4pg.sigma=0.1,0.3", "--jobs", "2", "--at", "6000",
                "--output", "out"]
        names = [f"tiny-seed-{seed}-d4pg.sigma-{sigma}" for sigma in ("0.1", "0.3") for seed in (1, 2)]
        runs = [self.run_named("out", name) for name in names]
        # Stopped in the middle of the first two, as by Ctrl-C.
        child = self.start(*grid)
        wait_until(lambda: all((run / "metrics.csv").exists() and len(rows_of(run / "metrics.csv")) > 1
                               for run in runs[:2]), "metrics of two runs")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(60), 1)
        said = (self.folder / "said").read_text(encoding="utf-8")
        self.assertRegex(said, "[01] of 4 runs have ended, 0 failed")  # one may be long before the other
        self.assertIn("stopped; it goes on when the sweep does", said)
        self.assertIn("stop requested", [self.reason(run) for run in runs[:2]])
        self.assertEqual([self.reason(run) for run in runs[3:]], [None], "no more are started")
        self.assertEqual(self.left_behind(), [])
        # Killed later on: no run outlives it.
        child = self.start(*grid)
        wait_until(lambda: "of them to do" in (self.folder / "said").read_text(encoding="utf-8"), "start of the sweep")
        beside = self.troupe(*grid)
        self.assertEqual((beside.returncode, beside.stdout), (1, ""))
        self.assertIn("out: another process is at work on this sweep", beside.stderr)
        wait_until(lambda: sum(self.reason(run) == "max_env_steps" for run in runs) >= 2, "two runs that have ended")
        child.kill()
        child.wait()
        wait_until(lambda: not self.left_behind(), "end of the runs of a sweep that was killed", 10)
        ended = [run for run in runs if self.reason(run) == "max_env_steps"]
        before = [(run / "summary.json").read_bytes() for run in ended]
        # The same command a third time.
        done = self.troupe(*grid)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"4 runs in out, {4 - len(ended)} of them to do, 2 at a time", done.stdout)
        self.assertEqual([self.reason(run) for run in runs], ["max_env_steps"] * 4)
        self.assertEqual([(run / "summary.json").read_bytes() for run in ended], before, "what has ended is kept")
        for run in runs:
            self.assertIn("step-", " ".join(path.name for path in (run / "checkpoints").iterdir()))
        self.check_table("out", {("cartpole-swingup", "d4pg.sigma=0.1"): runs[:2],
                                 ("cartpole-swingup", "d4pg.sigma=0.3"): runs[2:]}, [6000])
        page = (self.folder / "out/sweep.html").read_text(encoding="utf-8")
        self.assertIn((self.folder / "out/curves/cartpole-swingup.svg").read_text(encoding="utf-8"), page)
        for outside in "http://www.w3.org/2000/svg", :
            page = page.replace(outside, "")
        for part in "http", "<script", "src=", "nan", "inf ":
            self.assertNotIn(part, page)
        # compare says the same of the same runs, and of the sweep.
        self.assertEqual(self.troupe("compare", *runs, "--at", "6000", "-o", "compared").returncode, 0)
        twice = self.troupe("compare", *runs, "--at", "6000,100,6000", "-o", "twice")
        self.assertNotEqual(twice.returncode, 0)
        self.assertIn("--at: got 6000 twice", twice.stderr)
        self.assertEqual((self.folder / "compared/table.csv").read_bytes(), (self.folder / "out/table.csv").read_bytes())
        compared = self.troupe("compare", "out", "--by", "learner.batch_size")
        self.assertEqual(compared.returncode, 0, compared.stderr)
        self.assertIn("not told apart: d4pg.sigma", compared.stdout)

    def test_a_grid_grows_and_a_run_that_failed_is_tried_again(self):
        (self.folder / "suite").mkdir()
        self.write("suite/tiny.toml", steps=1000)
        self.write("suite/reacher.toml", env="reacher-easy", steps=1000)
        done = self.troupe("sweep", "suite", "--seeds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        tasks = [row["task"] for row in rows_of(self.folder / "sweeps/suite/table.csv")]
        self.assertEqual(tasks, ["reacher-easy", "cartpole-swingup", "all 2 tasks"])
        # A directory that is no run is in the way of the next one.
        blocked = self.run_named("sweeps/suite", "tiny-seed-2")
        blocked.mkdir()
        (blocked / "something").write_text("else")
        done = self.troupe("sweep", "suite", "--seeds", "1..2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tiny, seed 2: FAILED, exit code 1; the end of sweeps/suite/logs/tiny-seed-2.log:\n"
                      "    troupe: run directory sweeps/suite/runs/tiny-seed-2: is not empty", done.stdout)
        self.assertIn("3 of 4 runs have ended, 1 failed", done.stdout)
        (blocked / "something").unlink()
        done = self.troupe("sweep", "--resume", "sweeps/suite")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("tiny, seed 2 failed before (exit code 1): trying again", done.stdout)
        self.assertIn("[4/4] tiny, seed 2: return ", done.stdout)
        self.assertEqual(len(rows_of(self.folder / "sweeps/suite/table.csv")), 3)
        done = self.troupe("sweep", "suite", "--seeds", "1")
        self.assertEqual(done.returncode, 78)
        self.assertIn("it has runs that this grid lacks: reacher, seed 2, tiny, seed 2", done.stderr)

    def test_what_is_wrong_is_one_error_and_nothing_is_made(self):
        self.write("tiny.toml")
        (self.folder / "plain").mkdir()
        (self.folder / "plain/file").write_text("x")
        wrong = {
            ("sweep", "tiny.toml", "--set", "d4pg.sgma=1"): (78, "did you mean d4pg.sigma?"),
            ("sweep", "tiny.toml", "--set", "d4pg.sigma=1", "--set", "d4pg.sigma=2"): (64, "in an earlier --set"),
            ("sweep", "tiny.toml", "--seeds", "5..1"): (64, "goes down"),
            ("sweep", "tiny.toml", "--set", "max_env_steps=0"): (78, "would never end"),
            ("sweep", "tiny.toml", "--output", "plain"): (1, "is no sweep"),
            ("sweep", "--resume", "plain"): (1, "it has no sweep.json"),
            ("sweep", "--resume", "plain", "tiny.toml"): (64, "excludes"),
            ("sweep", "tiny.toml", "--jobs", "0"): (64, "--jobs"),
            ("sweep",): (64, "config is required"),
            ("compare", "plain"): (1, "not the directory of a run"),
            ("compare", "plain", "--threshold", "x%"): (64, "--threshold"),
        }
        for arguments, (code, message) in wrong.items():
            with self.subTest(arguments):
                done = self.troupe(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["plain", "tiny.toml"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
