#!/usr/bin/env python3
"""The installed wheel: the program, environments by Gymnasium's own checks and beside its SyncVectorEnv, runs."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import troupe
import troupe.gym

SITE = pathlib.Path(os.environ["TROUPE_SITE"])


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


class TheProgram(unittest.TestCase):
    def test_is_the_command_and_knows_its_configurations(self):
        def command(*arguments):
            environment = os.environ | {"PATH": "/usr/bin:/bin"}
            return subprocess.run([sys.executable, SITE / "bin/troupe", *arguments], env=environment, capture_output=True, text=True, timeout=60)

        self.assertRegex(command("version").stdout, r"^troupe \d+\.\d+")
        trained = command("train", "cartpole_swingup", "--set", "max_env_steps=2000", "--run-dir", tempfile.mkdtemp() + "/run")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        wrong = command("train", "cartpole_swingupp")
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("cartpole_swingup", wrong.stderr)


class TheModule(unittest.TestCase):
    def test_says_its_version_and_is_a_command(self):
        said = subprocess.run([sys.executable, "-m", "troupe", "version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.split()[1], troupe.__version__)

    def test_its_stub_is_what_nanobind_makes_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            stub = pathlib.Path(folder, "_core.pyi")
            subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "troupe._core", "-o", stub], check=True)
            self.assertEqual(stub.read_text(), (SITE / "troupe/_core.pyi").read_text(), "python/troupe/_core.pyi is to be made anew")

    def test_what_it_bundles_comes_with_its_licence(self):
        notices = SITE / "troupe/installed/share/doc/troupe/notices"
        self.assertIn("OpenSSL", (notices / "libssl3").read_text())
        self.assertTrue(any("caf" in each.name for each in notices.iterdir()), list(notices.iterdir()))


class OneEnvironment(unittest.TestCase):
    def test_all_are_registered(self):
        for name in troupe.environment_names():
            self.assertIn(f"troupe/{name}", gymnasium.registry)

    def test_pass_gymnasiums_checks(self):
        for name in ("cartpole-swingup", "humanoid-walk", "CartPole-v1", "Pendulum-v1", "MountainCar-v0"):
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of spaces without bounds, as dm_control's are
                check_env(gymnasium.make(f"troupe/{name}").unwrapped, skip_render_check=True)

    def test_classic_control_is_gymnasiums(self):
        for name in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"):
            ours, theirs = gymnasium.make(f"troupe/{name}").unwrapped, gymnasium.make(name)
            observations = [env.reset(seed=7)[0] for env in (ours, theirs)]
            np.testing.assert_array_equal(*observations, name)
            theirs.action_space.seed(3)
            for step in range(300):
                action = theirs.action_space.sample()
                (o1, r1, t1, u1, _), (o2, r2, t2, u2, _) = ours.step(action), theirs.step(action)
                np.testing.assert_array_equal(o1, o2, f"{name}, step {step}")
                self.assertEqual((t1, u1), (t2, u2), f"{name}, step {step}")
                self.assertAlmostEqual(r1, float(r2), places=12)
                if t1 or u1:
                    observations = [env.reset()[0] for env in (ours, theirs)]
                    np.testing.assert_array_equal(*observations, name)

    def test_draws_itself(self):
        env = gymnasium.make("troupe/cartpole-swingup", render_mode="rgb_array", width=64, height=48).unwrapped
        env.reset(seed=1)
        try:
            picture = env.render()
        except troupe.TroupeError as error:
            self.assertEqual(error.code, "unavailable", error)
            self.skipTest(f"this machine cannot draw: {error}")
        self.assertEqual((picture.shape, picture.dtype), ((48, 64, 3), np.uint8))
        self.assertGreater(int(picture.max()) - int(picture.min()), 50)
        by_number = troupe.gym.Env("cartpole-swingup", render_mode="rgb_array", width=64, height=48, camera=0)
        by_number.reset(seed=1)
        np.testing.assert_array_equal(by_number.render(), picture)

    def test_classic_control_has_gymnasiums_spaces(self):
        for name in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"):
            ours, theirs = gymnasium.make(f"troupe/{name}"), gymnasium.make(name)
            self.assertEqual(ours.observation_space, theirs.observation_space)
            self.assertEqual(ours.action_space, theirs.action_space)

    def test_without_a_seed_episodes_are_random_ones(self):
        for make in (lambda: gymnasium.make("troupe/CartPole-v1"), lambda: gymnasium.make_vec("troupe/CartPole-v1", num_envs=2)):
            first, second = (make().reset()[0] for _ in range(2))
            self.assertFalse(np.array_equal(first, second))

    def test_a_choice_is_a_whole_number(self):
        env = gymnasium.make("troupe/CartPole-v1").unwrapped
        env.reset(seed=1)
        for action in (np.array(1), 1, True, np.uint8(0)):
            env.step(action)
        for wrong in (0.5, 2**32, -(2**32) + 1, np.float32(1)):
            with self.assertRaisesRegex(troupe.TroupeError, "one of 2 choices", msg=wrong):
                env.step(wrong)

    def test_what_it_cannot_draw_or_begin_with_is_refused(self):
        for name, mode in (("CartPole-v1", "rgb_array"), ("cartpole-swingup", "human")):
            with self.assertRaisesRegex(troupe.TroupeError, f"render_mode is '{mode}', expected None"):
                troupe.gym.Env(name, render_mode=mode)
        self.assertEqual(troupe.gym.Env("CartPole-v1").metadata["render_modes"], [])
        with self.assertRaisesRegex(troupe.TroupeError, "expected no low and high"):
            gymnasium.make("troupe/CartPole-v1").reset(seed=1, options={"low": -0.1, "high": 0.1})

    def test_errors_say_what_was_expected(self):
        env = gymnasium.make("troupe/cartpole-swingup").unwrapped
        with self.assertRaisesRegex(troupe.TroupeError, "before reset|reset") as caught:
            env.step(np.zeros(1))
        self.assertEqual(caught.exception.code, "unavailable")
        env.reset(seed=1)
        with self.assertRaisesRegex(troupe.TroupeError, r"shape \(1, 2\), expected \(1, 1\)"):
            env.step(np.zeros(2))
        with self.assertRaises(troupe.TroupeError) as caught:
            env.step(np.array([np.nan]))
        self.assertEqual(caught.exception.code, "invalid_argument")
        with self.assertRaisesRegex(troupe.TroupeError, "did you mean cartpole-swingup") as caught:
            troupe.VectorEnv("cartpole-swingupp")
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaises(troupe.TroupeError):
            troupe.VectorEnv("cartpole-swingup", count=0)


class ManyEnvironments(unittest.TestCase):
    COUNT = 3

    def beside_gymnasiums(self, name, mode, steps):
        """Each call of ours beside a SyncVectorEnv of our single environments, with the same seeds and actions."""
        ours = gymnasium.make_vec(f"troupe/{name}", num_envs=self.COUNT, autoreset_mode=mode)
        single = lambda: gymnasium.make(f"troupe/{name}").unwrapped
        theirs = SyncVectorEnv([single] * self.COUNT, autoreset_mode=mode)
        self.assertEqual(ours.metadata["autoreset_mode"], mode)
        self.assertEqual(ours.observation_space, theirs.observation_space)
        self.assertEqual(ours.action_space, theirs.action_space)
        self.assertTrue(same(ours.reset(seed=5)[0], theirs.reset(seed=5)[0]))
        theirs.action_space.seed(1)
        ends = 0
        for step in range(steps):
            actions = theirs.action_space.sample()
            (o1, r1, t1, u1, i1), (o2, r2, t2, u2, i2) = ours.step(actions), theirs.step(actions)
            where = f"{name}, {mode}, step {step}"
            self.assertTrue(same(o1, o2), where)
            np.testing.assert_array_equal(r1, r2, where)
            np.testing.assert_array_equal(t1, t2, where)
            np.testing.assert_array_equal(u1, u2, where)
            ended = t1 | u1
            ends += ended.sum()
            self.assertEqual("final_obs" in i1, "final_obs" in i2, where)
            if "final_obs" in i1:
                np.testing.assert_array_equal(i1["_final_obs"], i2["_final_obs"], where)
                for index in np.flatnonzero(ended):
                    self.assertTrue(same(i1["final_obs"][index], i2["final_obs"][index]), where)
            if mode == AutoresetMode.DISABLED and ended.any():
                options = {"reset_mask": ended}
                self.assertTrue(same(ours.reset(options=options)[0], theirs.reset(options=dict(options))[0]), where)
        self.assertGreater(ends, 0, "an episode was to end")

    def test_are_what_gymnasium_makes_of_single_ones(self):
        for mode in AutoresetMode:
            with self.subTest(mode):
                self.beside_gymnasiums("CartPole-v1", mode, 300)
                self.beside_gymnasiums("Pendulum-v1", mode, 450)
                self.beside_gymnasiums("cartpole-balance", mode, 1100)

    def test_copies_are_ones_own_and_views_are_not(self):
        copied = troupe.gym.VectorEnv("cartpole-swingup", 2)
        viewed = troupe.gym.VectorEnv("cartpole-swingup", 2, copy=False)
        for envs, shares in ((copied, False), (viewed, True)):
            first, _ = envs.reset(seed=1)
            before = first["position"].copy()
            second = envs.step(np.ones((2, 1)))[0]
            self.assertEqual(np.shares_memory(first["position"], second["position"]), shares)
            self.assertEqual(np.array_equal(first["position"], before), not shares)

    def test_a_mask_and_seeds_reset_some(self):
        envs = troupe.gym.VectorEnv("pendulum-swingup", 3)
        start, _ = envs.reset(seed=4)
        envs.step(np.zeros((3, 1)))
        again, _ = envs.reset(seed=[None, 5, None], options={"reset_mask": np.array([False, True, False])})
        np.testing.assert_array_equal(again["orientation"][1], start["orientation"][1])
        self.assertFalse(np.array_equal(again["orientation"][0], start["orientation"][0]))
        with self.assertRaisesRegex(ValueError, "reset_mask"):
            envs.reset(options={"reset_mask": np.zeros(3, bool)})
        with self.assertRaisesRegex(ValueError, "2 numbers, expected 3"):
            envs.reset(seed=[1, 2])

    def test_an_ended_instance_is_to_be_reset_where_nothing_else_does(self):
        envs = gymnasium.make_vec("troupe/Pendulum-v1", num_envs=2, autoreset_mode=AutoresetMode.DISABLED)
        envs.reset(seed=1)
        for _ in range(200):
            envs.step(np.zeros((2, 1), np.float32))
        with self.assertRaisesRegex(troupe.TroupeError, r"\[0, 1\] have ended"):
            envs.step(np.zeros((2, 1), np.float32))

    def test_threads_change_nothing(self):
        observations = []
        for threads in (1, 2):
            envs = troupe.gym.VectorEnv("cheetah-run", 5, threads=threads)
            envs.reset(seed=1)
            envs.action_space.seed(2)
            for _ in range(20):
                observation = envs.step(envs.action_space.sample())[0]
            observations.append(observation)
        self.assertTrue(same(*observations))


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "run")

    def test_trains_and_tells(self):
        run = troupe.run("cartpole_swingup", run_dir=self.folder, seed=2, max_env_steps=6000, learner={"batch_size": 64})
        rows = list(run.rows())
        summary = run.wait(60)
        self.assertFalse(run.running)
        self.assertGreaterEqual(summary["env_steps"], 6000)
        self.assertEqual(summary["seed"], 2)
        self.assertEqual([row["return"] for row in rows], run.evaluations()["return"].tolist())
        self.assertIn("batch_size = 64", (self.folder / "config.toml").read_text())
        metrics = run.metrics()
        self.assertEqual(len({len(column) for column in metrics.values()}), 1)
        self.assertEqual(metrics["env_steps"].dtype, np.float64)
        self.assertEqual(troupe.load(self.folder).summary, summary)
        self.assertEqual(int(run.checkpoints()[-1].name.removeprefix("step-")), summary["learner_steps"])
        tensors = self.folder / "policy.safetensors"
        subprocess.run([SITE / "bin/troupe", "export", self.folder, "--format", "safetensors", "--output", tensors], check=True, capture_output=True)
        for name, values in troupe.load(tensors).items():
            self.assertTrue(np.isfinite(values).all() and values.size > 0 and values.flags.writeable, name)
        tensors.write_bytes(tensors.read_bytes()[:-1])
        with self.assertRaisesRegex(troupe.TroupeError, "neither a run's folder nor a whole file of safetensors"):
            troupe.load(tensors)

    def test_two_at_once_have_folders_of_their_own(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.parent)
        runs = [troupe.run("cartpole_swingup", max_env_steps=1500) for _ in range(2)]
        self.assertNotEqual(runs[0].directory, runs[1].directory)
        for run in runs:
            self.assertGreaterEqual(run.wait(60)["env_steps"], 1500)
        with self.assertRaisesRegex(troupe.TroupeError, "resume"):
            troupe.run("cartpole_swingup", run_dir=runs[0].directory)
        with self.assertRaisesRegex(troupe.TroupeError, "expected none with `resume`"):
            troupe.run("cartpole_swingup", run_dir="other", resume=runs[0])

    def test_one_that_was_started_elsewhere_is_waited_for_and_stopped(self):
        run = troupe.run("cartpole_swingup", run_dir=self.folder, max_env_steps=0)
        elsewhere = troupe.load(self.folder)
        self.assertTrue(elsewhere.running)
        with self.assertRaisesRegex(TimeoutError, "still runs"):
            elsewhere.wait(0.2)
        with self.assertRaisesRegex(troupe.TroupeError, "one process"):
            elsewhere.stop()
        summary = run.stop()
        self.assertFalse(elsewhere.running)
        self.assertEqual(elsewhere.wait(1), summary)

    def test_stops_with_a_checkpoint_and_goes_on(self):
        run = troupe.run("cartpole_swingup", run_dir=self.folder, max_env_steps=0)
        with self.assertRaisesRegex(TimeoutError, "still runs"):
            run.wait(0.5)
        self.assertTrue(run.running)
        stopped = run.stop()
        self.assertEqual(stopped["stop_reason"], "stop requested")
        more = troupe.run("cartpole_swingup", resume=run, max_env_steps=stopped["env_steps"] + 2000).wait(60)
        self.assertGreater(more["env_steps"], stopped["env_steps"])

    def test_its_policy_acts_as_its_evaluator_does(self):
        run = troupe.run("cartpole_swingup", run_dir=self.folder, max_env_steps=20000)
        run.wait(120)
        episodes = 3
        policy = run.policy(rows=episodes)
        self.assertEqual(policy.environment, "cartpole-swingup")
        self.assertGreater(policy.step, 0)
        envs = gymnasium.make_vec("troupe/cartpole-swingup", num_envs=episodes)
        observations, _ = envs.reset(seed=1)
        returns, ended = np.zeros(episodes), False
        while not ended:
            observations, rewards, _, truncated, _ = envs.step(policy.act(observations))
            returns += rewards
            ended = truncated.all()
        final = run.summary["final_return"]
        self.assertAlmostEqual(returns.mean(), final["mean"], delta=max(3 * final["std"], 0.15 * final["mean"]))

        alone = run.policy()
        np.testing.assert_allclose(alone.act({name: column[0] for name, column in observations.items()}),
                                   policy.act(observations)[0], atol=1e-5)
        flat = np.concatenate([column[0] for column in observations.values()]).astype(np.float32)
        np.testing.assert_allclose(alone.act(flat), policy.act(observations)[0], atol=1e-5)
        with self.assertRaisesRegex(troupe.TroupeError, r"shape \(4,\), expected \(5,\)"):
            alone.act(flat[:4])
        with self.assertRaisesRegex(troupe.TroupeError, "no part|learner"):
            run.policy(what="nobody")
        with self.assertRaises(troupe.TroupeError):
            troupe.Policy(self.folder.parent / "nothing")

    def test_says_what_is_wrong_with_a_configuration(self):
        with self.assertRaisesRegex(troupe.TroupeError, "did you mean learner.batch_size") as caught:
            troupe.run("cartpole_swingup", run_dir=self.folder, learner={"batch_sizes": 64})
        self.assertEqual(caught.exception.code, "invalid_argument")
        self.assertFalse(self.folder.exists())
        with self.assertRaisesRegex(troupe.TroupeError, "there is no run"):
            troupe.load(self.folder)


if __name__ == "__main__":
    unittest.main()
