"""`python -m troupe.ray` of the wheel on a real Ray: a head without processors and three raylets on this machine, of which
one is killed while a run trains on it. Skipped where nobody has made the Python environment of Ray, which takes half a
minute: tools/python_env.sh ray."""

import contextlib
import csv
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from troupe.ray import Failure, bundles_of

HERE = pathlib.Path(__file__).resolve().parent
SITE = os.environ["TROUPE_SITE"]
RAY = subprocess.run([HERE.parents[1] / "tools/python_env.sh", "--find", "ray"], capture_output=True, text=True, check=True).stdout.strip()
CONFIG = """env = "cartpole-swingup"
max_env_steps = 0
[actors]
count = 2
[replay]
min_items = 300
samples_per_insert = 2
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
[placement]
replay.nodes = 0
learner.nodes = 0
parameters.nodes = 0
evaluator.nodes = 0
"""


def wait_until(condition, what, timeout_s=40):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def processes_of_the_program():
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "exe").startswith(SITE):
                found.append(int(process.name))
    return found


class Driver:
    def __init__(self, folder, environment, *arguments):
        self._said, self._errors = folder / "driver.log", folder / "driver.errors"
        with self._said.open("wb") as said, self._errors.open("wb") as errors:
            self.process = subprocess.Popen([RAY, "-m", "troupe.ray", *arguments], cwd=folder, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=said, stderr=errors, start_new_session=True)

    @property
    def text(self):
        return self._said.read_text(errors="replace")

    @property
    def errors(self):
        return self._errors.read_text(errors="replace")

    def await_text(self, pattern, timeout_s=40):
        def said():
            return re.search(pattern, self.text)
        wait_until(lambda: said() or self.process.poll() is not None, lambda: f"{pattern} in:\n{self.text}{self.errors}", timeout_s)
        assert said(), f"it ended without saying {pattern}:\n{self.text}{self.errors}"
        return said()

    def end(self, timeout_s=60):
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {timeout_s} s:\n{self.text}{self.errors}") from None


@unittest.skipUnless(RAY, "no Python environment of Ray (tools/python_env.sh ray)")
class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-ray-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.here, home, more = cls.folder / "here", cls.folder / "home", cls.folder / "more"
        for folder in cls.here, home, more:
            folder.mkdir()
        (cls.here / "config.toml").write_text(CONFIG)
        backend = importlib.util.find_spec("nanobind_backend")  # the wheel needs it, and Ray's environment lacks it
        shutil.copytree(backend.submodule_search_locations[0], more / "nanobind_backend")
        # The home folder is that of the raylets' hosts.
        cls.environment = os.environ | {"HOME": str(home), "TMPDIR": str(cls.folder), "PYTHONPATH": f"{SITE}:{more}"}
        # Ray gives itself 30 s for each part of its start, which a machine with other work may miss once.
        cls.environment["RAY_ADDRESS"] = cls.start_ray() or cls.start_ray()
        assert cls.environment["RAY_ADDRESS"], f"Ray does not start:\n{(cls.folder / 'ray.errors').read_text()}"

    @classmethod
    def start_ray(cls):
        """Its address; empty when it has not started."""
        begun = time.monotonic()
        with (cls.folder / "ray.errors").open("wb") as errors:
            cls.cluster = subprocess.Popen([RAY, HERE / "ray_cluster.py", str(cls.folder / "ray")], env=cls.environment, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=errors, text=True)
        cls.addClassCleanup(cls.cluster.communicate)
        address = cls.cluster.stdout.readline().strip()
        print(f"Ray {'is up' if address else 'has given up'} after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        return address

    def driver(self, *arguments):
        driver = Driver(self.here, self.environment, "config.toml", *arguments)
        self.addCleanup(driver.process.wait)
        self.addCleanup(driver.process.kill)
        return driver

    def kill_raylet(self, beginning):
        self.cluster.stdin.write(beginning + "\n")
        self.cluster.stdin.flush()
        self.assertTrue(self.cluster.stdout.readline().startswith(beginning))

    def assert_nothing_runs(self, within_s):
        wait_until(lambda: not processes_of_the_program(), lambda: f"processes are left: {processes_of_the_program()}", within_s)

    def test_1_a_run_survives_a_raylet(self):
        driver = self.driver("--nodes", "2", "--strategy", "STRICT_SPREAD", "--run-dir", "runs/a", "--max-minutes", "0.3")
        raylet = driver.await_text(r"ray \| actors on \S+ \(Ray's node (\w+)\)")[1]
        begun = time.monotonic()
        driver.await_text(r"chief \| .* node actors has joined \(incarnation 1\)")
        print(f"the nodes are up {time.monotonic() - begun:.1f} s after their bundles", file=sys.stderr)
        for line in driver.text.splitlines():  # later ones are Ray's, too, of the raylet
            self.assertRegex(line, r"^(ray|launcher|chief|actors) \| ")
        killed = time.monotonic()
        self.kill_raylet(raylet)
        driver.await_text(r"launcher \| TRP-E101 node actors \(pid \d+\) died: exit code 254, its place is being restarted")
        driver.await_text(r"chief \| .* node actors has joined \(incarnation 2\)")
        print(f"the node is back {time.monotonic() - killed:.1f} s after its raylet was killed", file=sys.stderr)
        self.assertEqual(driver.end(), 0, driver.text)
        self.assertRegex(driver.text, r"chief \|   ended by       max_minutes\n")
        self.assertRegex(driver.text, r"ray \| runs/a is not on storage that all hosts share: .* fetched at the end\n")
        # What the run's hosts have recorded, in a home folder of theirs, has come here.
        run = self.here / "runs/a"
        self.assertEqual(json.loads((run / "summary.json").read_text())["stop_reason"], "max_minutes")
        self.assertTrue((run / "checkpoints/cut.json").exists())
        self.assertTrue((run / "nodes/actors/log.txt").exists())
        with (run / "metrics.csv").open(newline="") as file:
            rows = [float(row["env_steps"]) for row in csv.DictReader(file) if row["env_steps"]]
        self.assertGreater(rows[-1], rows[len(rows) // 2], "it went on after the loss")
        self.assert_nothing_runs(5)

    def test_2_ctrl_c_ends_a_run_with_a_checkpoint_and_another_driver_goes_on_with_it(self):
        run = str(self.folder / "shared/c")
        driver = self.driver("--nodes", "2", "--run-dir", run)
        driver.await_text(r"ray \| \S+/shared/c is on storage that all hosts share\n")
        driver.await_text(r"chief \| .* node actors has joined")
        driver.process.send_signal(signal.SIGINT)
        self.assertEqual(driver.end(), 0, driver.text)
        self.assertRegex(driver.text, r"chief \|   ended by       stop requested\n")
        driver = self.driver("--nodes", "2", "--resume", run)
        driver.await_text(r"chief \| resuming cartpole-swingup in ")
        driver.await_text(r"chief \| .* node actors has joined")
        driver.process.kill()  # and when it is killed, nothing is left
        driver.process.wait()
        self.assert_nothing_runs(5)

    def test_3_what_cannot_be_is_one_error(self):
        driver = self.driver("--nodes", "2", "--resource", "actors:CPU=99", "--wait", "1", "--run-dir", "runs/d")
        self.assertEqual(driver.end(), 1, driver.text)
        self.assertRegex(driver.errors, r'troupe\.ray: Ray has not given 2 bundles \(PACK\) within 1 s: asked for \[.*"CPU": 99\.0')
        self.assertFalse((self.here / "runs/d").exists())


class Bundles(unittest.TestCase):
    def test_have_what_is_asked_for(self):
        nodes = [{"name": "chief", "placement": "", "cpus": 2, "gpus": 0}, {"name": "actors-0", "placement": "actors", "cpus": 4, "gpus": 1}]
        self.assertEqual(bundles_of(nodes, ["actors:GPU=0", "chief:disk=0.5"]), [{"CPU": 2, "disk": 0.5}, {"CPU": 4}])
        for wrong, said in (("actors:GPU=-1", "expected a number of 0 or more"), ("actors:GPU=nan", "expected a number"), ("actors:GPU=inf", "expected a number"),
                            ("actors:GPU=some", "expected a number"), ("other:GPU=1", "NODES one of actors, chief"), ("actors:=1", "NODES:NAME=AMOUNT"),
                            ("chief:CPU=0", "nothing is left of the bundle of chief")):
            with self.assertRaisesRegex(Failure, said):
                bundles_of(nodes, [wrong])


class WithoutRay(unittest.TestCase):
    def test_is_one_error_that_says_what_to_install(self):
        if importlib.util.find_spec("ray"):
            self.skipTest("ray is installed here")
        done = subprocess.run([sys.executable, "-m", "troupe.ray", "cartpole_swingup"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "troupe.ray: ray is not installed for this Python: pip install ray\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
