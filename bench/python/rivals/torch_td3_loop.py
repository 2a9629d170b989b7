#!/usr/bin/env python3
"""The same networks and updates in the loop of CleanRL's td3_continuous_action.py, with its optimisers, which are not fused:
act, step the environment, add to the replay, sample, learn, one update an env step. The environment is Troupe's own by
Gymnasium, which is faster than dm_control's. PyTorch takes the threads that it takes by itself, as it does as a learner of
a run."""
import pathlib
import sys
import time
import types

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parents[1] / "python/examples")]
from learner import BATCH, UPDATES, WARM_UP_STEPS
from wheel_rows import main, report

SECONDS, SIGMA, DISCOUNT = 10, 0.1, 0.99


class Rows:
    """A replay of one-step transitions with a row for each."""

    def __init__(self, observation, action, size=1_000_000):
        import numpy as np

        widths = {"observation": (observation,), "action": (action,), "reward": (), "discount": (), "next_observation": (observation,)}
        self.columns = {name: np.zeros((size, *width), np.float32) for name, width in widths.items()}
        self.count, self.random = 0, np.random.default_rng(1)

    def add(self, **row):
        for name, value in row.items():
            self.columns[name][self.count] = value
        self.count += 1

    def sample(self):
        rows = self.random.integers(self.count, size=BATCH)
        return {name: column[rows] for name, column in self.columns.items()}


def env_steps_per_second():
    import gymnasium
    import numpy as np
    import torch
    from td3_torch import TD3

    import troupe.gym  # has the environment

    env = gymnasium.wrappers.FlattenObservation(gymnasium.make("troupe/cheetah-run"))
    observation_size, action_size = env.observation_space.shape[0], env.action_space.shape[0]
    agent = types.SimpleNamespace(seed=1, policy=[], batch={"observation": ("f32", (observation_size,)), "action": ("f32", (action_size,))})
    learner = TD3({name: key.default for name, key in TD3.keys.items()}, agent)
    learner.q_optimizer = torch.optim.Adam([*learner.qf1.parameters(), *learner.qf2.parameters()], lr=learner.rate)
    learner.actor_optimizer = torch.optim.Adam(learner.actor.parameters(), lr=learner.rate)
    rows, (observation, _) = Rows(observation_size, action_size), env.reset(seed=1)
    while True:
        if rows.count < WARM_UP_STEPS:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                action = learner.actor(torch.from_numpy(observation.astype(np.float32)))
                action = (action + torch.normal(0, SIGMA, action.shape)).clamp(-1, 1).numpy()
        following, reward, ended, cut, _ = env.step(action)
        rows.add(observation=observation, action=action, reward=reward, discount=DISCOUNT * (1 - ended), next_observation=following)
        observation = env.reset()[0] if ended or cut else following
        if rows.count < WARM_UP_STEPS:
            continue
        learner.learn(rows.sample())
        steps, now = rows.count - WARM_UP_STEPS - 100, time.perf_counter()
        if steps == 0:  # PyTorch is warm
            start = now
        elif steps > 0 and now - start > SECONDS:
            return steps / (now - start)


def measure():
    import torch

    value = env_steps_per_second()
    for name in UPDATES:  # always one an env step
        report(name, value, "env steps/s", version=torch.__version__)


if __name__ == "__main__":
    main(measure, __file__, env="torch")
