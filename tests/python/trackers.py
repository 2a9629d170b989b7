#!/usr/bin/env python3
"""`troupe track` with the real packages in their offline modes: rows go there once each and none is missing, whatever the run
does to its files meanwhile and however often the tracking process is killed. Skipped where the environment of
tools/python/track.txt has not been made.

    python3 tests/python/trackers.py           makes nothing: tools/python_env.sh track does
"""

import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACK = ROOT / "python/troupe/track.py"
PYTHON = subprocess.run([ROOT / "tools/python_env.sh", "--find", "track"], capture_output=True, text=True, check=True).stdout.strip()

WANDB = """
import glob, importlib.util, json, sys
spec = importlib.util.spec_from_file_location("track", sys.argv[1])
track = importlib.util.module_from_spec(spec)
spec.loader.exec_module(track)
from wandb.proto import wandb_internal_pb2
rows = []
for file in glob.glob(sys.argv[2] + "/wandb/offline-run-*/*.wandb"):
    for data in track._wandb_records(open(file, "rb").read()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item})
print(json.dumps(rows))
"""
MLFLOW = """
import json, os, pathlib, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
client = mlflow.MlflowClient(tracking_uri=pathlib.Path(sys.argv[2], "mlruns").resolve().as_uri())
found = client.search_runs([client.get_experiment_by_name("troupe").experiment_id])
assert len(found) == 1, found
history = {name: [point.value for point in client.get_metric_history(found[0].info.run_id, name)] for name in found[0].data.metrics}
print(json.dumps(history))
"""


class Writer:
    """A run that records: its files as troupe writes them."""

    def __init__(self, folder):
        self.run = pathlib.Path(folder) / "mine"
        self.run.mkdir()
        (self.run / "config.toml").write_text('env = "cartpole-swingup"\n[learner]\nbatch_size = 64\n')
        self.rows, self.evaluations, self.columns = [], [], ["actor/steps_per_s"]
        self.rewrite()

    def line(self, row):
        return ",".join([str(row["wall_s"]), str(row["env_steps"]), str(row["learner_steps"])] +
                        [str(row[name]) if name in row else "" for name in self.columns]) + "\n"

    def rewrite(self):
        text = "wall_s,env_steps,learner_steps," + ",".join(self.columns) + "\n" + "".join(map(self.line, self.rows))
        self.replace("metrics.csv", text)
        self.replace("evaluations.csv", "wall_s,source,step,env_steps,return\n" + "".join(
            f"{one['wall_s']},{one['source']},{one['step']},{one['env_steps']},{one['return']}\n" for one in self.evaluations))

    def replace(self, name, text):
        (self.run / "new").write_text(text)
        (self.run / "new").rename(self.run / name)

    def add(self, count):
        for _ in range(count):
            n = len(self.rows)
            row = {"wall_s": 0.5 * (n + 1), "env_steps": 10 * n + 10, "learner_steps": n, **{name: n + 0.25 for name in self.columns}}
            self.rows.append(row)
            with open(self.run / "metrics.csv", "a") as file:
                file.write(self.line(row))
            if n % 7 == 0:  # two at the same moment
                for source in ("evaluator", "alice-evaluator"):
                    self.evaluations.append({"wall_s": row["wall_s"], "source": source, "step": n, "env_steps": 10 * n, "return": 100 + n})
                    with open(self.run / "evaluations.csv", "a") as file:
                        file.write(f"{row['wall_s']},{source},{n},{10 * n},{100 + n}\n")

    def new_column(self):
        self.columns.append(f"learner/loss_{len(self.columns)}")
        self.rewrite()

    def end(self):
        old = time.time() - 10
        for name in ("metrics.csv", "evaluations.csv"):
            os.utime(self.run / name, (old, old))
        (self.run / "summary.json").write_text("{}")


class Track(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.writer = Writer(folder.name)
        self.env = {**os.environ, "HOME": folder.name, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HF_HUB_OFFLINE": "1"}

    def start(self, to, *arguments):
        return subprocess.Popen([PYTHON, TRACK, self.writer.run, "--to", to, *arguments], env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def follow_through_kills(self, to, kills):
        """Writes, rewrites and kills; then lets it come to the end."""
        choose = random.Random(5)
        for _ in range(kills):
            process = self.start(to)
            end = time.monotonic() + choose.uniform(1.5, 3.5)
            while time.monotonic() < end:
                self.writer.add(40)
                if choose.random() < 0.1:
                    self.writer.new_column()
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        self.writer.add(30)
        self.writer.end()
        said, _ = (process := self.start(to)).communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)
        self.assertRegex(said, rf"\d+ rows of .* sent to {to}")

    def check_rows(self, rows):
        """Of all rows each once, with all its values."""
        self.assertGreater(len(self.writer.rows), 500)
        metrics = sorted((row for row in rows if row["kind"] == "metrics"), key=lambda row: row["wall_s"])
        self.assertEqual([row["wall_s"] for row in metrics], [row["wall_s"] for row in self.writer.rows])
        for got, wanted in zip(metrics, self.writer.rows):
            self.assertEqual({name: got.get(name) for name in wanted}, wanted)
        found = sorted((row["wall_s"], name) for row in rows if row["kind"] == "evaluations" for name in row if name.endswith("/return"))
        self.assertEqual(found, sorted((one["wall_s"], one["source"] + "/return") for one in self.writer.evaluations))

    def test_wandb(self):
        self.follow_through_kills("wandb", 3)
        self.check_rows(json.loads(subprocess.run([PYTHON, "-c", WANDB, TRACK, self.writer.run / "track"], capture_output=True, text=True,
                                                  check=True, env=self.env).stdout))

    def test_trackio(self):
        self.follow_through_kills("trackio", 3)
        base = sqlite3.connect(self.writer.run / "track/trackio/troupe.db")
        rows = [json.loads(cell) for (cell,) in base.execute("SELECT metrics FROM metrics ORDER BY id")]
        base.close()
        self.check_rows(rows)

    def test_mlflow(self):
        self.follow_through_kills("mlflow", 2)
        history = json.loads(subprocess.run([PYTHON, "-c", MLFLOW, TRACK, self.writer.run / "track"], capture_output=True, text=True,
                                            check=True, env=self.env).stdout)
        self.assertEqual(sorted(history["metrics.wall_s"]), [row["wall_s"] for row in self.writer.rows])
        for name in self.writer.columns:
            self.assertEqual(sorted(history[name]), [row[name] for row in self.writer.rows if name in row], name)
        for source in ("evaluator", "alice-evaluator"):
            self.assertEqual(sorted(history[source + "/return"]),
                             [one["return"] for one in self.writer.evaluations if one["source"] == source])

    def test_what_a_resume_takes_back_stays_and_what_it_does_again_is_sent(self):
        self.writer.add(20)
        (process := self.start("trackio", "--once")).communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.writer.rows = self.writer.rows[:10]  # undone; the clock goes on
        self.writer.evaluations = [one for one in self.writer.evaluations if one["wall_s"] <= 5]
        self.writer.rewrite()
        for n in range(20, 25):
            self.writer.rows.append({"wall_s": 0.5 * (n + 1), "env_steps": 10 * n - 90, "learner_steps": n - 10, "actor/steps_per_s": 1.5})
            with open(self.writer.run / "metrics.csv", "a") as file:
                file.write(self.writer.line(self.writer.rows[-1]))
        said, _ = (process := self.start("trackio", "--once")).communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("5 rows of", said)

    def test_mistakes_get_one_line(self):
        for arguments, word in (([self.folder, "--to", "wandb"], "has no config.toml"),):
            done = subprocess.run([PYTHON, TRACK, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(word, done.stderr)
        done = subprocess.run(["/usr/bin/python3", "-I", TRACK, self.writer.run, "--to", "trackio"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("pip install trackio", done.stderr)


if __name__ == "__main__":
    if not PYTHON:
        print("skipped: the environment of tools/python/track.txt has not been made (tools/python_env.sh track)")
        sys.exit(77)
    unittest.main()
