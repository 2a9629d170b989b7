#!/usr/bin/env python3
"""Tests of the scenario runner with fake_troupe.py in the program's place: a good run passes, each defect is seen, a
schedule repeats exactly."""

import contextlib
import dataclasses
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import run_scenarios  # noqa: E402
from harness.schedule import Schedule  # noqa: E402
from harness.testing import SKIPPED, main, needs  # noqa: E402
from harness.trial import Trial  # noqa: E402

FAKE = [sys.executable, "-ISB", str(HERE / "fake_troupe.py")]
SCENARIOS = {scenario.name: scenario for scenario in run_scenarios.SCENARIOS}


@needs("root", "hosts")
class TrialTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trial(self, name, bug="none"):
        scenario = dataclasses.replace(SCENARIOS[name], settle_s=2.0, settings=(f"bug={bug}",))
        schedule = Schedule.make(name, 1, scenario.plan)
        trial = Trial(scenario, schedule, self.folder / "out", FAKE, HERE, say=lambda text: None)
        trial.good = trial.run()
        trial.defects = [line for line in trial.wrong if "too late" not in line]  # a busy machine makes anything late
        return trial

    def test_a_good_run_passes_and_is_measured(self):
        trial = self.trial("F1_env_actor_killed")
        self.assertEqual(trial.defects, [])
        self.assertEqual(trial.good, not trial.wrong)
        self.assertEqual([one.what for one in trial.measurements], ["actor-0 detected", "actor-0 back", "learner steps"])
        for one in trial.measurements:
            self.assertGreater(one.seconds, 0)
        self.assertEqual({path.name for path in (self.folder / "out").iterdir()},
                         {"launcher.txt", "observed.jsonl", "result.json", "run", "schedule.json"})

    def test_one_that_does_not_come_back_is_seen(self):
        trial = self.trial("F1_env_actor_killed", bug="never_back")
        self.assertFalse(trial.good)
        self.assertIn("too late: actor-0 back: never (limit 2 s)", trial.wrong)

    def test_a_version_that_falls_is_seen(self):
        trial = self.trial("F2_learner_killed", bug="version_falls")
        self.assertTrue(any("version of learner fell" in line for line in trial.wrong), trial.wrong)

    def test_processes_that_stay_are_seen(self):
        trial = self.trial("F1_env_actor_killed", bug="leaves_processes")
        self.assertEqual(trial.defects, ["still there after the end: actors, chief, learner"])

    def test_a_run_that_does_not_start_is_seen(self):
        with mock.patch("harness.trial.STEADY_TIMEOUT_S", 0.3):
            trial = self.trial("F1_env_actor_killed")
        self.assertFalse(trial.good)
        self.assertIn("not steady within 0.3 s", trial.wrong[0])


class CommandTest(unittest.TestCase):
    def run_it(self, *argv):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = run_scenarios.main(list(argv))
        return status, out.getvalue()

    @needs("root", "hosts")
    def test_a_recorded_seed_is_repeated(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ["--out", folder, "--program", " ".join(FAKE)]
            with mock.patch.object(run_scenarios, "SCENARIOS", [
                    dataclasses.replace(SCENARIOS["F1_env_actor_killed"], settle_s=1.0)]):
                first = self.run_it("F1_env_actor_killed", "--seed", "4", *options)
                again = self.run_it("--replay", "4", *options)
            fault = [line for line in first[1].splitlines() if "kill actor-0" in line]
            self.assertEqual(fault, [line for line in again[1].splitlines() if "kill actor-0" in line])
            self.assertRegex(first[1], "[01] held, [01] failed, 0 skipped")  # a busy machine makes anything late

    def test_a_scenario_that_the_machine_cannot_run_is_skipped_by_name(self):
        with mock.patch.object(run_scenarios, "reason_to_skip", lambda needs: "needs nft: no nft"):
            status, out = self.run_it("F1_env_actor_killed")
        self.assertEqual(status, SKIPPED)
        self.assertIn("SKIPPED F1_env_actor_killed: needs nft: no nft", out)

    def test_names_are_checked_and_listed(self):
        with self.assertRaisesRegex(SystemExit, "unknown: F99"):
            self.run_it("F99")
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(SystemExit, "no schedule of seed 9"):
            self.run_it("--replay", "9", "--out", folder)
        listed = self.run_it("--list", "--tier", "ci")[1].splitlines()
        self.assertEqual(listed, [name for name, scenario in SCENARIOS.items() if scenario.tier == "ci"])


if __name__ == "__main__":
    main()
