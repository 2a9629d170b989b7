"""apps/configs/mixed.toml, trained until every part has learnt something that can be measured: D4PG's actors feed a group
of learners beside two other groups that train their own models. In one process, over processes with one of each kind
killed on the way, and over hosts in namespaces with the same. Exit status 77 where the machine lacks what a test needs.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/apps/mixed_test.py OneProcess Processes Hosts
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/faults"))
from harness import requirements  # noqa: E402
from harness.network import Network  # noqa: E402
from harness.training import ClusterTraining  # noqa: E402

PROGRAM = os.environ.get("TROUPE_PROGRAM", "troupe")
CONFIG = ROOT / "apps/configs/mixed.toml"
SETTINGS = ["max_env_steps=60000", "replicas.sngan.steps=2500", "replicas.classifier.steps=6000"]
# A node of each kind; what has more than one loses its first.
KINDS = ["actors", "classifier", "classifier-ps", "sngan", "learner", "replay", "parameters", "evaluator", "chief"]
PAUSE_S = 2.0
PATIENCE_S = 400


class Mixed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_folder = self.folder / "run"

    def has_learnt(self, log):
        """Guessing gives a return below 50, a Frechet distance of 580 and an accuracy of 0.1."""
        summary_file = self.run_folder / "summary.json"
        self.assertTrue(summary_file.exists(), log[-6000:])
        summary = json.loads(summary_file.read_text())
        parts = summary["replicas"]
        self.assertGreater(summary["final_return"]["mean"], 250, summary)
        self.assertLess(parts["sngan"]["evaluation"]["frechet_distance"], 60, summary)
        self.assertGreater(parts["classifier"]["evaluation"]["accuracy"], 0.8, summary)
        self.assertEqual(parts["sngan"]["steps"], 2500)
        self.assertGreaterEqual(parts["classifier"]["steps"], 6000)
        self.assertGreaterEqual(summary["env_steps"], 59000)

    def settings(self):
        return [word for setting in SETTINGS for word in ("--set", setting)]


class OneProcess(Mixed):
    def test_all_parts_learn(self):
        done = subprocess.run([PROGRAM, "train", CONFIG, "--run-dir", self.run_folder, *self.settings()],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr[-6000:])
        self.has_learnt(done.stderr)


def kill_one_of_each_kind(test, find, names, alive):
    """find(name): the pid of a node's process, or None while there is none. Each is killed once it trains."""
    time.sleep(6)
    for name in names:
        deadline = time.monotonic() + 30
        while (pid := find(name)) is None and time.monotonic() < deadline and alive():
            time.sleep(0.2)
        if not alive():
            test.fail(f"the run has ended before {name} was to be killed")
        test.assertIsNotNone(pid, f"{name} has no process")
        os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def nodes_below(folder):
    """name -> pid of the nodes of the run in that folder, on this machine."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "node" in argv and any(str(folder) in word for word in argv):
            found |= {name: int(entry.name) for flag, name in zip(argv, argv[1:]) if flag == "--name"}
    return found


class Processes(Mixed):
    def test_all_parts_learn_while_one_of_each_kind_is_killed(self):
        log = self.folder / "log.txt"
        with open(log, "wb") as file:
            launcher = subprocess.Popen([PROGRAM, "train", CONFIG, "--processes", "--run-dir", self.run_folder,
                                         *self.settings()], stdout=file, stderr=file, start_new_session=True)
        self.addCleanup(lambda: launcher.poll() is None and os.killpg(launcher.pid, signal.SIGKILL))
        kill_one_of_each_kind(self, lambda name: match(nodes_below(self.run_folder), name), KINDS,
                              lambda: launcher.poll() is None)
        self.assertEqual(launcher.wait(PATIENCE_S), 0, log.read_text(errors="replace")[-6000:])
        self.has_learnt(log.read_text(errors="replace"))


def match(nodes, name):
    """The pid of the node of that name, or of the first of its kind where there are several."""
    return nodes.get(name) or nodes.get(f"{name}-0")


class MixedHosts(ClusterTraining):
    HOSTS = {"head": "parameters = 1, evaluator = 1, replay = 1", "left": "actors = 1, learner = 1, sngan = 1, "
             "classifier = 1", "right": "actors = 1, learner = 1, sngan = 1, classifier = 1, classifier-ps = 1"}


class Hosts(Mixed):
    def test_all_parts_learn_while_one_of_each_kind_is_killed(self):
        missing = requirements.reason_to_skip(["root", "hosts"])
        if missing:
            self.skipTest(missing)
        with Network() as network:
            training = MixedHosts(network, [PROGRAM], CONFIG, self.folder, SETTINGS)
            training.start()
            kill_one_of_each_kind(self, lambda name: match(training.processes(), name), KINDS,
                                  lambda: training.launcher.wait(0) is None)
            status = training.launcher.wait(PATIENCE_S)
            log = (self.folder / "launcher.txt").read_text(errors="replace")
            self.assertEqual(status, 0, log[-6000:])
            self.has_learnt(log)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    if program.result.skipped and program.result.testsRun == len(program.result.skipped):
        print("\n".join(why for _, why in program.result.skipped))
        sys.exit(77)
    sys.exit(not program.result.wasSuccessful())
