"""What a newcomer does: an empty environment, pip, a run, a return; within a minute, of which pip's downloads are a part."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

WHEEL = os.environ["TROUPE_WHEEL"]
PINNED = pathlib.Path(__file__).resolve().parents[2] / "tools/python/wheel.txt"
FIRST_DAY = """
import json, sys
import gymnasium
import numpy as np
import troupe
import troupe.gym

run = troupe.run("cartpole_swingup", run_dir=sys.argv[1], max_env_steps=0)
for row in run.rows():
    first = row["return"]
    break
run.stop()
policy = run.policy()
env = gymnasium.make("troupe/cartpole-swingup")
observation, _ = env.reset(seed=1)
total = 0.0
for _ in range(100):
    observation, reward, terminated, truncated, _ = env.step(policy.act(observation))
    total += reward
print(json.dumps({"first return": first, "played": total}))
"""


class ANewcomer(unittest.TestCase):
    def test_has_a_return_within_a_minute(self):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            python = pathlib.Path(folder, "env/bin/python")
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

            def call(*command):
                return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)

            made = call(sys.executable, "-m", "venv", python.parents[1])
            self.assertEqual(made.returncode, 0, made.stderr)
            constraints = pathlib.Path(folder, "constraints.txt")  # what exists tomorrow must not fail this test
            constraints.write_text("".join(line.split(" ")[0] + "\n" for line in PINNED.read_text().splitlines() if "==" in line))
            installed = call(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, f"{WHEEL}[gym]")
            if installed.returncode != 0 and "Could not find a version" in installed.stderr:
                self.skipTest("pip reaches no index")
            self.assertEqual(installed.returncode, 0, installed.stderr)
            done = call(python, "-c", FIRST_DAY, pathlib.Path(folder, "run"))
            took = time.monotonic() - begin
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout.splitlines()[-1])
            self.assertGreaterEqual(result["first return"], 0)
            self.assertGreaterEqual(result["played"], 0)
            self.assertLess(took, 60)
            version = call(python.parent / "troupe", "version")
            self.assertEqual(version.returncode, 0, version.stderr)
