#!/usr/bin/env python3
"""Checkpoints of the real program: damaged ones, file systems that know less, everything killed at any moment, and the
chief killed at each system call around a commit. Each time the run goes on from a checkpoint that is whole, and says so.

The program's path comes in the environment variable TROUPE_PROGRAM. TROUPE_KILLS: how often everything is killed (few
times unless it says more); TROUPE_COMMIT_KILLS=all: the chief at every call, not at some. TROUPE_SEED: of the moments.
"""

import csv
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness.testing import main, needs  # noqa: E402

PROGRAM = os.environ.get("TROUPE_PROGRAM", "troupe")
SEED = int(os.environ.get("TROUPE_SEED", "20"))
PATIENCE_S = 60

CONFIG = """env = "cartpole-swingup"
max_env_steps = 3000
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
[checkpoint]
every_s = 1
[placement]
actors.nodes = 2
parameters.nodes = 0
evaluator.nodes = 0
"""


class CheckpointCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        (self.folder / "small.toml").write_text(CONFIG)
        self.run_folder = self.folder / "run"
        self.checkpoints = self.run_folder / "checkpoints"

    def command(self, *words, around=()):
        return [*around, PROGRAM, *map(str, words)]

    def call(self, *words, around=()):
        """Exit status, and all that was said."""
        done = subprocess.run(self.command(*words, around=around), cwd=self.folder, text=True, timeout=PATIENCE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def train(self, *words, around=()):
        return self.call("train", "small.toml", *words, around=around)

    def begin(self, *words):
        """A process group of its own, so that all of it can be killed at once."""
        log = open(self.folder / "log.txt", "ab")  # noqa: SIM115: as long as the process
        self.addCleanup(log.close)
        process = subprocess.Popen(self.command("train", "small.toml", *words), cwd=self.folder, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(self.kill_all, process)
        return process

    def said(self):
        return (self.folder / "log.txt").read_text(errors="replace")

    def processes(self):
        """{what: pid} of the run's processes; the launcher's and the one process's name is "train"."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if os.readlink(entry / "cwd") != str(self.folder):
                    continue
            except OSError:
                continue
            if "node" in argv and "--name" in argv:
                found[argv[argv.index("--name") + 1]] = int(entry.name)
            elif "train" in argv:
                found["train"] = int(entry.name)
        return found

    def kill_all(self, launcher):
        # The launcher first: it must not start any of the others again.
        pids = [launcher.pid, *self.processes().values()]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        launcher.wait()
        self.wait_until(lambda: not self.processes(), "all processes to be gone")

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            if time.monotonic() > end:
                self.fail(f"waited {PATIENCE_S} s for {what}\n{self.said()[-3000:]}")
            time.sleep(0.02)
        return value

    def newest(self):
        """Number of the newest cut of a run over nodes, or step of the newest checkpoint of one process; 0: none."""
        try:
            return json.loads((self.checkpoints / "cut.json").read_text())["manifest"]["cut"]
        except FileNotFoundError:
            return max((int(path.name[5:]) for path in self.checkpoints.glob("step-*")), default=0)

    def rows(self):
        try:
            with open(self.run_folder / "metrics.csv", newline="") as file:
                return list(csv.DictReader(file))
        except FileNotFoundError:
            return []

    def evaluations(self):
        """(source, step) of what is recorded; each must be there once."""
        try:
            text = (self.run_folder / "evaluations.csv").read_text(encoding="utf-8")
        except FileNotFoundError:
            return set()
        found = [(row["source"], int(row["step"])) for row in csv.DictReader(text[:text.rfind("\n") + 1].splitlines())]
        self.assertEqual(len(found), len(set(found)), f"an evaluation is there twice: {sorted(found)}")
        return set(found)

    def env_steps(self):
        return json.loads((self.run_folder / "summary.json").read_text())["env_steps"]


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class DamagedCheckpoint(CheckpointCase):
    def first_run(self, *words):
        status, said = self.train("--run-dir", "run", *words)
        self.assertEqual(status, 0, said)

    def two_checkpoints(self, *words):
        """A run that has two of them, at least."""
        self.first_run(*words)
        if len(list(self.checkpoints.rglob("step-*"))) < 2 * max(1, len(words) * 4):
            status, said = self.train("--resume", "run", "--set", "max_env_steps=3300", *words)
            self.assertEqual(status, 0, said)

    def test_one_process_goes_on_from_the_one_before(self):
        self.two_checkpoints()
        newest = max(self.checkpoints.glob("step-*"))
        flip(newest / "tensors.safetensors")
        status, said = self.call("eval", "run", "--episodes", 1)
        self.assertEqual(status, 0, said)
        self.assertIn(f"TRP-W603 checkpoint {newest.name} is damaged and not used: {newest.name}: tensors.safetensors:",
                      said)
        status, said = self.train("--resume", "run", "--set", "max_env_steps=3600")
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("is damaged and not used"), 1, said)
        self.assertEqual(self.env_steps(), 3600)

    def test_processes_go_on_from_the_one_before(self):
        self.two_checkpoints("--processes")
        steps = 3600
        damages = {
            "a flipped byte": lambda name: flip(self.checkpoints / "learner" / name / "tensors.safetensors"),
            "a part that is gone": lambda name: shutil.rmtree(self.checkpoints / "learner" / name),
            "the cut's own file": lambda _: flip(self.checkpoints / "cut.json"),
        }
        for what, damage in damages.items():
            with self.subTest(what):
                name = f"step-{self.newest():09}"
                damage(name)
                status, said = self.call("eval", "run", "--episodes", 1)
                self.assertEqual(status, 0, said)
                self.assertEqual(said.count("TRP-W603"), 1, said)
                status, said = self.train("--processes", "--resume", "run", "--set", f"max_env_steps={steps}")
                self.assertEqual(status, 0, said)
                self.assertEqual(said.count("is damaged and not used"), 1, said)
                self.assertNotIn("TRP-E", said)
                self.assertEqual(self.env_steps(), steps)
                learner_steps = [int(float(row["learner_steps"])) for row in self.rows()]
                self.assertGreater(learner_steps[-1], 0.9 * max(learner_steps), "it did not begin again from nothing")
                steps += 300

    def test_without_a_whole_one_there_is_one_error(self):
        for words in [(), ("--processes",)]:
            with self.subTest(words):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                self.first_run(*words)
                for path in self.checkpoints.rglob("counters.chunks"):
                    flip(path)
                begun = time.monotonic()
                status, said = self.train("--resume", "run", "--set", "max_env_steps=9000", *words)
                self.assertNotEqual(status, 0)
                self.assertLess(time.monotonic() - begun, 20)
                error = "no checkpoint is whole" if words else "none of "
                self.assertEqual(said.count(error), 1, said)
                self.assertIn("counters.chunks: SHA-256 is ", said)
                self.assertNotIn("restarting it", said)
                self.assertNotIn("configuration is wrong", said)


def strace_works():
    try:
        return subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@unittest.skipUnless(strace_works(), "no strace, or it may not trace here")
class OtherFileSystems(CheckpointCase):
    def test_checkpoints_need_no_flags_of_rename(self):
        """As NFS, CephFS and Lustre answer."""
        for error in ["EINVAL", "ENOSYS", "EOPNOTSUPP"]:
            with self.subTest(error):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e",
                          f"inject=renameat2:error={error}"]
                status, said = self.train("--run-dir", "run", around=strace)
                self.assertEqual(status, 0, said)
                self.assertNotIn("TRP-E601", said)
                # Without a step between, the checkpoint of the same step is replaced.
                status, said = self.train("--resume", "run", around=strace)
                self.assertEqual(status, 0, said)
                self.assertNotIn("TRP-E601", said)
                status, said = self.train("--resume", "run", "--set", "max_env_steps=3300")
                self.assertEqual(status, 0, said)
                self.assertEqual(self.env_steps(), 3300)


@needs("root")
class NetworkFileSystem(CheckpointCase):
    def setUp(self):
        super().setUp()
        if not all(map(shutil.which, ["exportfs", "mount.nfs"])) or not pathlib.Path("/proc/fs/nfsd/threads").exists():
            self.skipTest("no NFS server runs here (exportfs, mount.nfs, nfsd)")
        exported, mounted = self.folder / "exported", self.folder / "mounted"
        exported.mkdir()
        mounted.mkdir()
        export = ["exportfs", "-o", "rw,no_root_squash,insecure,fsid=4711", f"127.0.0.1:{exported}"]
        for command, undo in [(export, ["exportfs", "-u", f"127.0.0.1:{exported}"]),
                              (["mount", "-t", "nfs", f"127.0.0.1:{exported}", str(mounted)], ["umount", str(mounted)])]:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
            if done.returncode != 0:
                self.skipTest(f"{command[0]}: {done.stderr.strip()}")
            self.addCleanup(subprocess.run, undo, capture_output=True, check=False)
        self.run_folder = mounted / "run"

    def test_a_run_is_kept_on_it(self):
        for words in [(), ("--processes",)]:
            shutil.rmtree(self.run_folder, ignore_errors=True)
            for how in [("--run-dir", self.run_folder), ("--resume", self.run_folder, "--set", "max_env_steps=3300")]:
                status, said = self.train(*how, *words)
                self.assertEqual(status, 0, said)
                self.assertNotIn("TRP-E", said)


class EverythingKilled(CheckpointCase):
    """At random moments, and each time the run goes on with --resume."""

    END = 1_000_000_000  # never reached: it is told to stop

    def kill_and_resume(self, kills, *words):
        random_moment = random.Random(SEED)
        words = (*words, "--set", f"max_env_steps={self.END}", "--set", "metrics.every_s=0.2")
        process, floor, resumed = self.begin("--run-dir", "run", *words), 0, False
        self.wait_until(self.newest, "the first checkpoint")
        for kill in range(kills):
            time.sleep(random_moment.uniform(0.05, 2.5))
            self.assertIsNone(process.poll(), self.said()[-3000:])
            self.kill_all(process)
            committed, before = self.newest(), self.rows()
            self.assertGreaterEqual(committed, floor, f"kill {kill}, seed {SEED}")
            floor = committed
            process, resumed = self.begin("--resume", "run", *words), True
            fresh = self.wait_until(lambda: [row for row in self.rows() if row not in before], "new rows")
            if not self.checkpoints.joinpath("cut.json").exists():
                self.assertGreaterEqual(int(float(fresh[0]["learner_steps"])), floor, f"kill {kill}, seed {SEED}")
        self.assertTrue(resumed)
        self.wait_until(lambda: self.newest() > floor or process.poll() is not None, "a checkpoint after the last kill")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.said()[-3000:])
        status, said = self.train("--resume", "run", *words[:-4], "--set", f"max_env_steps={self.env_steps() + 2000}")
        self.assertEqual(status, 0, said)
        self.assertNotIn("is damaged and not used", self.said() + said)
        rows = [tuple(row.values()) for row in self.rows()]
        self.assertEqual(len(rows), len(set(rows)), "no row of metrics twice")

    def test_in_one_process(self):
        self.kill_and_resume(int(os.environ.get("TROUPE_KILLS", "4")))

    def test_of_several_processes(self):
        self.kill_and_resume(int(os.environ.get("TROUPE_KILLS", "2")), "--processes")


class EvaluationsOfKilledRuns(CheckpointCase):
    """Each is recorded once, and stays unless the step is undone whose parameters were evaluated."""

    KILLS = 3
    GROUP = """[replicas.mlp]
model = "classifier"
data = "synthetic"
layers = [32]
batch_size = 40
steps = 10000000
evaluate_every_steps = 100
[checkpoint]
every_s = 1
"""

    def new_ones(self, before):
        """Waits for three more."""
        self.wait_until(lambda: len(self.evaluations() - before) >= 3, "new evaluations")
        return self.evaluations()

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE_S), 0, self.said()[-3000:])
        self.assertNotIn("TRP-E604", self.said())
        return self.evaluations()

    def test_of_a_group_that_goes_on_from_a_checkpoint(self):
        (self.folder / "small.toml").write_text(self.GROUP)
        process = self.begin("--run-dir", "run")
        for kill in range(self.KILLS):
            self.wait_until(self.newest, "the first checkpoint")
            self.new_ones(self.evaluations())
            self.kill_all(process)
            committed = self.newest()
            kept = {one for one in self.evaluations() if one[1] <= committed}
            self.assertTrue(kept)
            process = self.begin("--resume", "run")
            self.wait_until(lambda: self.newest() > committed, "the next checkpoint")
            self.assertLessEqual(kept, self.evaluations(), f"kill {kill}")
        self.assertLessEqual(kept, self.stop(process))
        end = max(step for _, step in self.evaluations()) + 3000
        status, said = self.train("--resume", "run", "--set", f"replicas.mlp.steps={end}")
        self.assertEqual(status, 0, said)
        self.assertIn(("mlp-evaluator", end), self.evaluations(), "the run ended when its last one was recorded")

    def test_when_only_the_chief_dies(self):
        process = self.begin("--processes", "--run-dir", "run", "--set", "max_env_steps=0", "--set",
                             "placement.evaluator.nodes=1", "--set", "evaluator.every_learner_steps=50")
        found = self.new_ones(set())
        for kill in range(self.KILLS):
            chief = self.processes()["chief"]
            os.kill(chief, signal.SIGKILL)
            self.wait_until(lambda: self.processes().get("chief", chief) != chief, "another chief")
            found |= self.evaluations()
            again = self.new_ones(found)
            self.assertLessEqual(found, again, f"kill {kill}")
            found = again
        self.assertLessEqual(found, self.stop(process))


@unittest.skipUnless(strace_works(), "no strace, or it may not trace here")
class ChiefKilledAroundACommit(CheckpointCase):
    """Before its K-th call of a kind, and the learner with it: the committed cut is found by both."""

    # Of each thread: the chief's own writes its journal, what cut.json says, and its journal again; its writer a part.
    ALL = [("rename", k) for k in range(1, 10)] + [("fsync", k) for k in range(1, 19)]
    SOME = [("rename", 3), ("rename", 4), ("fsync", 6)]
    KILLS_OF_A_RUN = 4  # the launcher gives a node up that dies more than 5 times within a minute

    def test_the_learner_goes_on_from_what_was_committed(self):
        points = self.ALL if os.environ.get("TROUPE_COMMIT_KILLS") == "all" else self.SOME
        for first in range(0, len(points), self.KILLS_OF_A_RUN):
            shutil.rmtree(self.run_folder, ignore_errors=True)
            launcher = self.begin("--processes", "--run-dir", "run", "--set", "max_env_steps=0")
            self.wait_until(self.newest, "the first checkpoint")
            for call, k in points[first:first + self.KILLS_OF_A_RUN]:
                self.kill_chief_at(call, k)
            launcher.send_signal(signal.SIGINT)
            self.assertEqual(launcher.wait(PATIENCE_S), 0, self.said()[-3000:])
            self.assertNotIn("TRP-E605", self.said())
            self.assertNotIn("is damaged", self.said())
            self.kill_all(launcher)

    def kill_chief_at(self, call, k):
        where = f"before {call} number {k} of a thread"
        before = self.newest()
        chief = self.wait_until(lambda: self.processes().get("chief"), "a chief")
        learner = self.wait_until(lambda: self.processes().get("learner"), "a learner")
        strace = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                   f"inject={call}:signal=KILL:when={k}", "-p", str(chief)])
        self.addCleanup(strace.kill)
        self.wait_until(lambda: self.processes().get("chief") != chief, f"the chief to die {where}")
        try:
            os.kill(learner, signal.SIGKILL)
        except ProcessLookupError:
            pass
        strace.wait(PATIENCE_S)
        committed = self.newest()
        self.assertGreaterEqual(committed, before, where)
        self.wait_until(lambda: self.newest() > committed, f"the next checkpoint after the chief was killed {where}")


if __name__ == "__main__":
    main()
