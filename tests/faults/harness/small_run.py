"""A small run of the real program with a process for each role, for tests that need neither root nor hosts of their own.
The program's path comes in the environment variable TROUPE_PROGRAM.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ.get("TROUPE_PROGRAM", "troupe")
PATIENCE_S = 240.0  # of what must come, on a busy machine
CONFIG = """
env = "cartpole-swingup"
max_minutes = 10
max_env_steps = 0
[actors]
count = 2
[replay]
min_items = 64
[d4pg]
policy_layers = [16, 16]
critic_layers = [16, 16]
[learner]
batch_size = 16
"""


def descendants(pid):
    """The process and all that it has started."""
    found = [pid]
    for one in found:
        for task in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, task.read_text("ascii").split())
    return found


class SmallRun(unittest.TestCase):
    def start(self, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_folder = self.folder / "run"
        (self.folder / "small.toml").write_text(CONFIG, encoding="utf-8")
        self.log = self.folder / "log.txt"
        with open(self.log, "wb") as log:
            self.launcher = subprocess.Popen(
                [PROGRAM, "train", str(self.folder / "small.toml"), "--run-dir", str(self.run_folder), *options],
                stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(self.end)

    def end(self):
        if self.launcher.poll() is None:
            os.killpg(self.launcher.pid, signal.SIGKILL)
            self.launcher.wait()

    def fail_with_log(self, what):
        self.fail(f"{what}\n{self.log.read_text(errors='replace')[-4000:]}")

    def wait_for(self, what, condition):
        deadline = time.monotonic() + PATIENCE_S
        while not (found := condition()):
            if time.monotonic() > deadline or self.launcher.poll() is not None:
                self.fail_with_log(f"{what}: not within {PATIENCE_S:.0f} s, or the run has ended")
            time.sleep(0.3)  # asking costs a process
        return found

    def status(self):
        done = subprocess.run([PROGRAM, "status", str(self.run_folder), "--json"], capture_output=True, timeout=20,
                              check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def all_up(self):
        status = self.status()
        if status and "nodes" not in status:
            return None  # of a folder in which no chief has said yet where it is
        up = status and all(one["state"] == "up" for one in status["nodes"] + status["instances"])
        return status if up and status["versions"].get("learner", 0) > 0 else None
