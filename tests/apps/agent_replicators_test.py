"""D4PG under every replicator: cartpole-swingup comes to a return of 800, which chance is at 50 of, with two learners or
one that is split over two devices.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/apps/agent_replicators_test.py [Replicators.test_NAME ...]
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("TROUPE_PROGRAM", "troupe")
CONFIG = ROOT / "apps/configs/cartpole_swingup.toml"
ENV_STEPS = 80000  # twice what the slowest of 30 seeds of one learner needs
PATIENCE_S = 300


class Replicators(unittest.TestCase):
    def reaches_800(self, *settings):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            words = [word for setting in settings for word in ("--set", setting)]
            done = subprocess.run([PROGRAM, "train", CONFIG, "--run-dir", run, "--set", f"max_env_steps={ENV_STEPS}", *words], capture_output=True, text=True,
                                  timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 0, done.stderr[-4000:])
            summary = json.loads((run / "summary.json").read_text())
            self.assertIn("800", summary["first_reached"], summary)
            # What was trained is what is evaluated at the end, out of the last checkpoint.
            self.assertGreater(summary["final_return"]["mean"], 700, summary)

    def test_multi_worker(self):
        self.reaches_800("learner.replicator=multi_worker", "learner.count=2")

    def test_multi_device(self):
        self.reaches_800("learner.replicator=multi_device", "learner.count=2")

    def test_central_storage(self):
        self.reaches_800("learner.replicator=central_storage", "learner.count=2")

    def test_model_parallel(self):
        self.reaches_800("learner.replicator=model_parallel", "learner.devices=2")

    def test_parameter_server(self):
        self.reaches_800("learner.replicator=parameter_server", "learner.count=2", "learner.ps_shards=2")

    def test_sync_replicas(self):
        self.reaches_800("learner.replicator=sync_replicas", "learner.count=2")


if __name__ == "__main__":
    unittest.main()
