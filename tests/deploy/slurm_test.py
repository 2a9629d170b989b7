#!/usr/bin/env python3
"""deploy/slurm/troupe.sbatch: what a shell and shellcheck say of it, and (`run`) as a job of a real Slurm.

    slurm_test.py script     exit status 77 where shellcheck is missing
    slurm_test.py run        exit status 77 where Slurm is missing or hosts cannot be made
    slurm_test.py sweep      `troupe sweep --slurm`; the same
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/slurm/troupe.sbatch"
PLACE = os.environ.get("TROUPE_LAUNCH_PROGRAM", str(ROOT / "build/release/bin/launch_program"))
TROUPE = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import isolation  # noqa: E402
import slurm_cluster  # noqa: E402

# Says where it is, and goes on until `stop`. One that is called with "fails" ends by itself.
FAKE_TROUPE = f"""#!/bin/sh
case $1 in
  node)
    {PLACE} place 4 >"$5/$SLURM_PROCID" || exit
    echo "$*" >"$5/arguments.$SLURM_PROCID"
    [ "$7" = fails ] && exit "$SLURM_PROCID"
    until [ -e "$5/stop" ]; do sleep 0.1; done
    ;;
  stop) : >"$2/stop" ;;
esac
"""


class Script(unittest.TestCase):
    def test_is_good_shell(self):
        subprocess.run(["bash", "-n", SCRIPT], check=True)
        subprocess.run(["shellcheck", SCRIPT], check=True)

    def test_options_stand_before_the_first_command(self):
        lines = SCRIPT.read_text(encoding="utf-8").splitlines()
        options = [number for number, line in enumerate(lines) if line.startswith("#SBATCH")]
        commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
        self.assertGreater(len(options), 3)
        self.assertLess(max(options), min(commands))  # sbatch ignores later ones


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.slurm = cls.enterClassContext(slurm_cluster.SlurmCluster(cls.folder))
        cls.troupe = cls.folder / "troupe"
        cls.troupe.write_text(FAKE_TROUPE, encoding="utf-8")
        cls.troupe.chmod(0o755)

    def submit(self, run, *arguments, tasks=7, troupe=None, config="config.toml"):
        (self.folder / run).mkdir()
        return self.slurm.submit(f"--ntasks={tasks}", "--ntasks-per-node=4", f"--output={self.folder}/{run}.log", SCRIPT,
                                 config, *arguments, environment={"TROUPE": str(troupe or self.troupe),
                                                                  "TROUPE_RUN_DIR": str(self.folder / run)})

    def await_files(self, run, names):
        self.slurm.wait_until(lambda: all((self.folder / run / name).exists() for name in names), f"files {names}")

    def test_every_task_finds_its_own_place_in_the_same_cluster(self):
        job = self.submit("places", "--set", "actors.count=4")
        self.await_files("places", [f"arguments.{rank}" for rank in range(7)])
        places = [(self.folder / "places" / str(rank)).read_text(encoding="utf-8") for rank in range(7)]
        names = [place.split("\n", 1)[0] for place in places]
        clusters = {place.split("\n", 1)[1] for place in places}
        self.assertEqual(names, ["chief", "replay", "learner", "parameters", "evaluator", "actors-0", "actors-1"])
        self.assertEqual(len(clusters), 1)
        cluster = clusters.pop()
        self.assertEqual([line for line in cluster.splitlines() if line.startswith("host")],
                         ['host = "n1"'] * 4 + ['host = "n2"'] * 3)
        self.assertIn(f'run = "slurm-{job}"', cluster)
        arguments = (self.folder / "places" / "arguments.6").read_text(encoding="utf-8")
        self.assertEqual(arguments, f"node config.toml --keep-up --run-dir {self.folder}/places --set actors.count=4\n")
        self.slurm.cancel("--batch", "--signal=TERM", job)  # a clean end: the script asks the run to stop
        self.assertEqual(self.slurm.await_end(job, 30), ("COMPLETED", 0))
        self.assertTrue((self.folder / "places" / "stop").exists())

    def test_the_jobs_exit_code_is_that_of_the_worst_task_and_none_ends_the_others(self):
        job = self.submit("failing", "--set", "fails", tasks=6)
        self.assertEqual(self.slurm.await_end(job, 30), ("FAILED", 5))
        self.await_files("failing", [f"arguments.{rank}" for rank in range(6)])

    def train(self, run, end, state):
        """A run of the real program, which `end` ends once it learns, the job with `state`; what it said."""
        job = self.submit(run, "--set", "actors.count=2", "--set", "replay.min_items=300", "--set", "evaluator.episodes=1",
                          troupe=TROUPE, config=ROOT / "apps/configs/pendulum_swingup.toml")
        log = self.folder / f"{run}.log"
        self.slurm.wait_until(lambda: log.exists() and re.search(r"learner [1-9]", log.read_text(encoding="utf-8")),
                              f"learner steps in {log}", 60)
        end(job)
        ended = self.slurm.await_end(job, 60)
        text = log.read_text(encoding="utf-8")
        self.assertEqual(ended[0], state, text)
        summary = self.folder / run / "summary.json"
        self.assertTrue(summary.exists(), text)
        self.assertEqual(json.loads(summary.read_text(encoding="utf-8"))["stop_reason"], "stop requested", text)
        self.assertTrue((self.folder / run / "checkpoints/cut.json").exists())
        for node in "replay", "learner", "parameters", "evaluator", "actors-0", "actors-1":
            self.assertRegex(text, rf"node {node} has joined")
        return text

    def test_a_run_trains_until_its_batch_script_is_asked_to_end(self):
        text = self.train("stopped", lambda job: self.slurm.cancel("--batch", "--signal=TERM", job), "COMPLETED")
        self.assertIn("stopping: asked by troupe stop", text)

    def test_a_run_whose_nodes_are_all_asked_to_end_at_once_makes_its_checkpoint(self):
        self.train("cancelled", self.slurm.cancel, "CANCELLED")


# A run of some seconds; `steps` says of how many.
TINY = """env = "cartpole-swingup"
max_env_steps = {steps}
d4pg = {{ policy_layers = [16], critic_layers = [16], atoms = 11 }}
learner = {{ batch_size = 16 }}
replay = {{ min_items = 100, samples_per_insert = 2, tolerance = 1 }}
evaluator = {{ episodes = 1, every_learner_steps = 100 }}
metrics = {{ every_s = 0.2 }}
"""


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.slurm = cls.enterClassContext(slurm_cluster.SlurmCluster(cls.folder))

    def sweep(self, *arguments):
        return subprocess.run([TROUPE, "sweep", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=100,
                              check=False)

    def job_of(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = re.search(r"Slurm job (\d+) does them", done.stdout)
        self.assertTrue(found, done.stdout + done.stderr)
        return found[1]

    def await_job(self, job):
        def waits():
            return subprocess.run(["squeue", "--noheader", f"--jobs={job}"], capture_output=True, text=True, check=False,
                                  timeout=20).stdout
        self.slurm.wait_until(lambda: not waits(), f"end of the array job {job}", 90)

    def reasons(self, sweep):
        found = {}
        for run in sorted((self.folder / sweep / "runs").iterdir()):
            summary = run / "summary.json"
            found[run.name] = json.loads(summary.read_text())["stop_reason"] if summary.exists() else None
        return found

    def logs(self, sweep):
        return "\n".join(log.read_text() for log in sorted((self.folder / sweep / "logs").glob("slurm-*.log")))

    def test_an_array_job_does_the_runs_that_are_missing_and_makes_the_table(self):
        (self.folder / "tiny.toml").write_text(TINY.format(steps=2000))
        grid = ["tiny.toml", "--set", "d4pg.sigma=0.1,0.3", "--slurm", "--jobs", "3", "--sbatch=--cpus-per-task=2"]
        self.await_job(self.job_of(self.sweep(*grid, "--seeds", "1..2")))
        self.assertEqual(set(self.reasons("sweeps/tiny").values()), {"max_env_steps"}, self.logs("sweeps/tiny"))
        table = (self.folder / "sweeps/tiny/table.csv").read_text().splitlines()
        self.assertEqual([line.split(",")[1:4] for line in table[1:]],
                         [["d4pg.sigma=0.1", "2", "1 2"], ["d4pg.sigma=0.3", "2", "1 2"]])
        job = self.job_of(self.sweep(*grid, "--seeds", "1..3"))
        self.await_job(job)
        tasks = sorted(log.name for log in (self.folder / "sweeps/tiny/logs").glob(f"slurm-{job}_*.log"))
        self.assertEqual(tasks, [f"slurm-{job}_{task}.log" for task in (4, 5)], "what has ended is not done again")
        done = self.sweep(*grid, "--seeds", "1..3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6 runs in sweeps/tiny, 0 of them to do\n", done.stdout)
        self.assertIn("results: sweeps/tiny/sweep.html\n", done.stdout)
        table = (self.folder / "sweeps/tiny/table.csv").read_text().splitlines()
        self.assertEqual([line.split(",")[2] for line in table[1:]], ["3", "3"])

    def test_a_job_that_is_cancelled_leaves_checkpoints_from_which_the_next_one_goes_on(self):
        (self.folder / "long.toml").write_text(TINY.format(steps=2_000_000))
        grid = ["long.toml", "--seeds", "1..2", "--slurm"]
        job = self.job_of(self.sweep(*grid))
        runs = [self.folder / f"sweeps/long/runs/long-seed-{seed}" for seed in (1, 2)]
        self.slurm.wait_until(lambda: all((run / "metrics.csv").exists() and (run / "metrics.csv").read_text().count("\n") > 2
                                          for run in runs), "two runs at work")
        at_work = f"Slurm job {job} is at work on this sweep, 0 of 2 runs have ended"
        again = self.sweep(*grid)
        self.assertEqual((again.returncode, again.stdout), (0, f"sweeps/long: {at_work}\n"))
        here = self.sweep(*grid[:-1])
        self.assertEqual(here.returncode, 1)
        self.assertIn(f"{at_work}; wait for it, or end it with scancel {job}", here.stderr)
        self.slurm.cancel(job)
        self.await_job(job)
        self.assertEqual(set(self.reasons("sweeps/long").values()), {"stop requested"}, self.logs("sweeps/long"))
        job = self.job_of(self.sweep(*grid))
        self.slurm.wait_until(lambda: all("resuming cartpole-swingup in" in (self.folder / f"sweeps/long/logs/{run.name}.log").read_text()
                                          for run in runs), "two runs that go on")
        self.slurm.cancel(job)
        self.await_job(job)


if __name__ == "__main__":
    what = sys.argv.pop(1)
    if what == "script":
        isolation.need(what, "shellcheck")
    else:
        sys.argv.insert(1, what)
        isolation.enter_namespaces(what, "root", "hosts", "slurm")
        sys.argv.pop(1)
    unittest.main(defaultTest=what.capitalize(), verbosity=2)
