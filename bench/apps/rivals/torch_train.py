#!/usr/bin/env python3
"""The same D4PG in PyTorch with dm_control, one process: rival of bench/apps/train.py.

Every setting is what `troupe config` resolves the configuration to: networks, batch, n-step returns, learning rates,
noise, learner steps for each environment step, replay, evaluations. One loop does what Troupe's actors do at once:
acts, learns, and every evaluator.every_learner_steps plays evaluator.episodes episodes with one forward pass for all of
them. It takes one or two threads, whichever makes its learner faster here; finding that out does not count.
"""
import collections
import os
import pathlib
import subprocess
import sys
import time
import tomllib

os.environ["MUJOCO_GL"] = "disable"  # nothing is drawn

import numpy as np
import torch
from dm_control import suite

BENCH = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(BENCH / "apps"), str(BENCH / "learner")]
import cartpole_task as task
import torch_d4pg

THREADS_SECONDS = 4.0


def settings():
    """The resolved configuration, as nested dictionaries."""
    resolved = subprocess.run([task.PROGRAM, "config", task.CONFIG], check=True, capture_output=True, text=True)
    config = tomllib.loads(resolved.stdout)
    if config["replay"]["sampler"] != "uniform":
        sys.exit(f"replay.sampler is {config['replay']['sampler']}: this rival samples uniformly")
    return config


def load_environment(config, seed):
    environment = suite.load(*config["env"].split("-", 1), task_kwargs={"random": seed})
    bounds = environment.action_spec()
    if (bounds.minimum != -1).any() or (bounds.maximum != 1).any():
        sys.exit(f"{config['env']}: this rival's policy acts in -1..1")
    return environment


def flatten(time_step):
    return np.concatenate([np.ravel(value) for value in time_step.observation.values()], dtype=np.float32)


class Replay:
    """Uniform, first in first out, in arrays."""

    def __init__(self, items, observation_size, action_size, seed):
        shapes = ((observation_size,), (action_size,), (), (), (observation_size,))
        self.columns = [np.empty((items, *shape), np.float32) for shape in shapes]
        self.random = np.random.default_rng(seed)
        self.inserted = 0

    def insert(self, transition):
        row = self.inserted % len(self.columns[0])
        for column, value in zip(self.columns, transition):
            column[row] = value
        self.inserted += 1

    def sample(self, batch_size):
        rows = self.random.integers(min(self.inserted, len(self.columns[0])), size=batch_size)
        return [torch.from_numpy(column[rows]) for column in self.columns]


class Actor:
    """Plays one environment with noise and inserts n-step transitions, as replay/n_step_adder.hpp makes them."""

    def __init__(self, config, policy, replay, seed):
        self.environment = load_environment(config, seed)
        self.policy, self.replay = policy, replay
        self.random = np.random.default_rng(seed)
        self.sigma, self.kept = config["d4pg"]["sigma"], config["d4pg"]["noise_correlation"]
        self.discount, self.n_step = config["d4pg"]["discount"], config["d4pg"]["n_step"]
        self.window = collections.deque()  # (observation, action, reward, discount), the oldest first
        self.start()

    def start(self):
        self.window.clear()
        self.noise = None
        self.observation = flatten(self.environment.reset())

    def step(self):
        action = self.policy(torch.from_numpy(self.observation)[None]).numpy()[0]
        fresh = self.random.normal(size=action.shape)
        self.noise = fresh if self.noise is None else self.kept * self.noise + (1 - self.kept**2) ** 0.5 * fresh
        action = np.clip(action + self.sigma * self.noise, -1, 1).astype(np.float32)
        time_step = self.environment.step(action)
        if len(self.window) == self.n_step:
            self.window.popleft()
        self.window.append((self.observation, action, time_step.reward, time_step.discount))
        self.observation = flatten(time_step)
        self.insert()
        if time_step.last():
            while len(self.window) > 1:
                self.window.popleft()
                self.insert()
            self.start()

    def insert(self):
        """From the oldest start in the window to now."""
        total, discount = 0.0, 1.0
        for _, _, reward, step_discount in self.window:
            total += discount * reward
            discount *= self.discount * step_discount
        self.replay.insert((*self.window[0][:2], total, discount, self.observation))


class Evaluator:
    def __init__(self, config, policy, seed):
        self.environments = [load_environment(config, seed + i) for i in range(config["evaluator"]["episodes"])]
        self.policy = policy

    def mean_return(self):
        steps = [environment.reset() for environment in self.environments]
        total = 0.0
        while not steps[0].last():  # episodes of the control suite all have the same length
            actions = self.policy(torch.from_numpy(np.stack([flatten(step) for step in steps]))).numpy()
            steps = [environment.step(action) for environment, action in zip(self.environments, actions)]
            total += sum(step.reward for step in steps)
        assert all(step.last() for step in steps)
        return total / len(steps)


def best_threads(options, batch_size):
    cores = len(os.sched_getaffinity(0))
    rates = {n: torch_d4pg.steps_per_second(options, batch_size, n, THREADS_SECONDS) for n in (1, 2) if n <= cores}
    print(f"learner steps a second by threads: {rates}", file=sys.stderr, flush=True)
    return max(rates, key=rates.get)


def train(config, options):
    """Wall seconds until the threshold is reached."""
    start = time.perf_counter()
    seed, learning, limits = config["seed"], config["learner"], config["replay"]
    torch.manual_seed(seed)
    learner = torch_d4pg.Learner(options)
    # Traced for less overhead a call; it has the learner's own parameters.
    policy = torch.jit.trace(learner.policy, torch.zeros(1, options.observation_size))
    replay = Replay(limits["max_items"], options.observation_size, options.action_size, seed)
    actors = [Actor(config, policy, replay, seed + 1000 * i) for i in range(config["actors"]["count"])]
    evaluator = Evaluator(config, policy, seed + 1_000_000)
    best = None
    while time.perf_counter() - start < task.LIMIT_S:
        with torch.no_grad():
            for actor in actors:
                actor.step()
        due = (replay.inserted - limits["min_items"]) * limits["samples_per_insert"] / learning["batch_size"]
        while learner.steps < due:
            learner.step(replay.sample(learning["batch_size"]))
            if learner.steps % config["evaluator"]["every_learner_steps"] == 0:
                with torch.no_grad():
                    mean = evaluator.mean_return()
                wall_s = time.perf_counter() - start
                print(f"{wall_s:.1f} s: {learner.steps} learner steps, return {mean:.1f}", file=sys.stderr, flush=True)
                if mean >= task.THRESHOLD:
                    return wall_s
                best = mean if best is None else max(best, mean)
    task.not_reached(best, time.perf_counter() - start)


def main():
    config = settings()
    learning = {**config["learner"], **config["d4pg"]}
    environment = load_environment(config, 0)
    options = torch_d4pg.Options(
        observation_size=flatten(environment.reset()).size,
        action_size=environment.action_spec().shape[0],
        **{key: value for key, value in learning.items() if key in torch_d4pg.Options.__dataclass_fields__},
    )
    torch.set_num_threads(best_threads(options, learning["batch_size"]))
    task.report(train(config, options), torch.__version__)


if __name__ == "__main__":
    main()
