"""The installed wheel: environments as dm_env's and EnvPool's, and arrays of other libraries."""
import collections
import unittest

import dm_env
import gymnasium
import numpy as np
from dm_env import specs, test_utils

import troupe
import troupe.dm
import troupe.envpool
import troupe.gym


class Foreign:
    """An array that says no more than DLPack does."""

    def __init__(self, values, device=(1, 0)):
        self._values, self._device = values, device

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._device


class DmEnvsContract(test_utils.EnvironmentTestMixin, unittest.TestCase):
    def make_object_under_test(self):
        return troupe.dm.load("cartpole-swingup", seed=1)


class DmEnvsContractOfChoices(test_utils.EnvironmentTestMixin, unittest.TestCase):
    def make_object_under_test(self):
        return troupe.dm.load("CartPole-v1", seed=1)


class DmEnv(unittest.TestCase):
    def test_episodes_are_those_of_the_other_views(self):
        environment, other = (troupe.dm.load("pendulum-swingup", seed=3) for _ in range(2))
        core = troupe.VectorEnv("pendulum-swingup", seed=3)
        first = environment.reset()
        self.assertEqual(first.step_type, dm_env.StepType.FIRST)
        self.assertIsNone(first.reward)
        core.advance(np.array([1], np.uint8), np.zeros((1, 8), np.uint8))
        self.assertEqual(b"".join(column.tobytes() for column in first.observation.values()), core.observations[0].tobytes())
        other.reset()
        steps, step = 0, first
        while not step.last():
            action = np.array([np.sin(steps)])
            step, same = environment.step(action), other.step(action)
            for name, column in step.observation.items():
                np.testing.assert_array_equal(column, same.observation[name])
            self.assertEqual(step.reward, same.reward)
            steps += 1
        self.assertEqual(steps, core.episode_steps)
        self.assertEqual(step.discount, 1.0)
        self.assertTrue(environment.step(action).first())
        self.assertFalse(all(np.array_equal(a, b) for a, b in zip(troupe.dm.load("pendulum-swingup").reset().observation.values(),
                                                                 first.observation.values())), "without a seed: any episode")

    def test_a_task_that_is_done_has_no_discount(self):
        environment = troupe.dm.load("CartPole-v1", seed=2)
        step = environment.reset()
        while not step.last():
            step = environment.step(1)
        self.assertEqual(step.discount, 0.0)

    def test_specs_are_dm_controls(self):
        environment = troupe.dm.load("cheetah-run")
        self.assertIsInstance(environment.observation_spec(), collections.OrderedDict)
        self.assertEqual({name: spec.shape for name, spec in environment.observation_spec().items()}, {"position": (8,), "velocity": (9,)})
        action = environment.action_spec()
        self.assertEqual((action.shape, action.dtype, action.name), ((6,), np.float64, "action"))
        np.testing.assert_array_equal(action.maximum, np.ones(6))
        self.assertIsInstance(troupe.dm.load("CartPole-v1").action_spec(), specs.DiscreteArray)
        with self.assertRaisesRegex(troupe.TroupeError, "did you mean cheetah-run"):
            troupe.dm.load("cheetah-runn")


class EnvPools(unittest.TestCase):
    def test_all_at_once_is_what_gymnasium_makes_of_it(self):
        pool, envs = troupe.envpool.make("CartPole-v1", num_envs=3, seed=5), gymnasium.make_vec("troupe/CartPole-v1", num_envs=3)
        self.assertEqual(len(pool), 3)
        self.assertEqual(pool.observation_space, envs.single_observation_space)
        self.assertEqual(pool.action_space, envs.single_action_space)
        np.testing.assert_array_equal(pool.reset()[0], envs.reset(seed=5)[0])
        rng, elapsed = np.random.default_rng(1), np.zeros(3, int)
        ended = np.zeros(3, bool)
        for _ in range(200):
            actions = rng.integers(0, 2, 3)
            got, expected = pool.step(actions), envs.step(actions)
            for mine, theirs in zip(got[:4], expected[:4]):
                np.testing.assert_array_equal(mine, theirs)
            elapsed = np.where(ended, 0, elapsed + 1)
            ended = got[2] | got[3]
            np.testing.assert_array_equal(got[4]["elapsed_step"], elapsed)
            np.testing.assert_array_equal(got[4]["env_id"], np.arange(3))
        self.assertLess(elapsed.max(), 200, "an episode was to end")

    def test_batches_come_as_they_are_done_and_each_goes_its_own_way(self):
        """Whoever asks first: each instance sees what it would see alone."""
        pool = troupe.envpool.make("pendulum-swingup", num_envs=6, batch_size=2, num_threads=2, seed=7)
        seen = collections.defaultdict(list)
        pool.async_reset()
        for _ in range(3 * 30):
            observations, rewards, _, _, info = pool.recv()
            for index, number in enumerate(info["env_id"]):
                seen[int(number)].append((observations["velocity"][index].copy(), rewards[index]))
            order = np.array([1, 0])  # in any order
            pool.send((info["env_id"] / 10)[order, None], info["env_id"][order])
        self.assertEqual(sorted(seen), list(range(6)))
        for number, steps in seen.items():
            env = gymnasium.make("troupe/pendulum-swingup").unwrapped
            expected = [(env.reset(seed=7 + number)[0]["velocity"], 0.0)]
            while len(expected) < len(steps):
                observation, reward, *_ = env.step(np.array([number / 10]))
                expected.append((observation["velocity"], reward))
            for got, wanted in zip(steps, expected):
                np.testing.assert_array_equal(got[0], wanted[0])
                self.assertEqual(got[1], wanted[1])
        pool.close()

    def test_says_what_is_wrong(self):
        with self.assertRaisesRegex(troupe.TroupeError, "num_envs is 5 and batch_size 2"):
            troupe.envpool.make("CartPole-v1", num_envs=5, batch_size=2)
        with self.assertRaisesRegex(troupe.TroupeError, "env_type"):
            troupe.envpool.make("CartPole-v1", "dm")
        pool = troupe.envpool.make("Pendulum-v1", num_envs=4, batch_size=2)
        with self.assertRaisesRegex(troupe.TroupeError, "nothing was received yet"):
            pool.send(np.zeros((2, 1), np.float32))
        with self.assertRaisesRegex(TimeoutError, "within 0.1 s"):
            pool.recv(timeout=0.1)
        slow = troupe.envpool.make("dog-run", num_envs=64, num_threads=1)
        with self.assertRaisesRegex(TimeoutError, "within 0 s"):
            slow.reset(timeout=0)
        slow.recv()
        with self.assertRaisesRegex(TimeoutError, "within 0 s"):
            slow.step(np.zeros((64, *slow.action_space.shape)), timeout=0)
        slow.recv()
        slow.close()
        pool.async_reset()
        with self.assertRaisesRegex(troupe.TroupeError, "0 to 1 are under way"):
            pool.async_reset()
        pool.recv(), pool.recv()
        pool.send(np.zeros((2, 1), np.float32), [2, 3])
        with self.assertRaisesRegex(troupe.TroupeError, "2 to 3 are under way"):
            pool.async_reset()  # which has reset no other
        pool.recv()
        for wrong in ([0, 2], [0], [], [7, 8], [-1, 0]):
            with self.assertRaisesRegex(troupe.TroupeError, "instances of one batch"):
                pool.send(np.zeros((2, 1), np.float32), wrong)
        with self.assertRaisesRegex(troupe.TroupeError, r"shape \(2, 2\), expected \(2, 1\)"):
            pool.send(np.zeros((2, 2), np.float32), [0, 1])
        pool.send(np.full((2, 1), np.nan, np.float32), [0, 1])
        with self.assertRaises(troupe.TroupeError) as caught:
            pool.recv()
        self.assertEqual(caught.exception.code, "invalid_argument")
        pool.close()


class Arrays(unittest.TestCase):
    def test_of_other_libraries_come_by_dlpack(self):
        envs = [troupe.gym.VectorEnv("cartpole-swingup", 2) for _ in range(2)]
        for each in envs:
            each.reset(seed=1)
        actions = np.array([[0.5], [-0.5]])
        observations = [each.step(given)[0] for each, given in zip(envs, (actions, Foreign(actions)))]
        np.testing.assert_array_equal(observations[0]["position"], observations[1]["position"])
        with self.assertRaisesRegex(troupe.TroupeError, "lies on a device .*2:0"):
            envs[0].step(Foreign(actions, (2, 0)))
