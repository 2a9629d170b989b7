#!/usr/bin/env python3
"""Stable-Baselines3's SAC and TD3 with dm_control: rival of bench/apps/train_agents.py.

Task, networks, batch, discount, random steps, targets' rate and the learner steps for each env step are those of Troupe's
configuration; learning rates and the rest are Stable-Baselines3's own. Evaluations are as many, and cheaper than its own:
all episodes go at once. It takes one or two threads, whichever makes its learner faster here; finding that out does not
count.
"""
import subprocess
import sys
import time
import tomllib

import torch_train  # sets MUJOCO_GL before dm_control is there
import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise

import agent_tasks  # found as torch_train's cartpole_task is

THREADS_STEPS = 200


class ControlSuite(gymnasium.Env):
    """A task of dm_control, its observation flat."""

    def __init__(self, config):
        self.environment = torch_train.load_environment(config, config["seed"])
        size = torch_train.flatten(self.environment.reset()).size
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, self.environment.action_spec().shape, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return torch_train.flatten(self.environment.reset()), {}

    def step(self, action):
        step = self.environment.step(action)
        ended = step.last() and step.discount == 0
        return torch_train.flatten(step), step.reward, ended, step.last() and not ended, {}


def settings(task):
    """The resolved configuration, as nested dictionaries."""
    command = [agent_tasks.PROGRAM, "config", task.config]
    resolved = subprocess.run(command, check=True, capture_output=True, text=True)
    return tomllib.loads(resolved.stdout)


def make_agent(config):
    keys, batch_size = config[config["algorithm"]], config["learner"]["batch_size"]
    if config["replay"]["samples_per_insert"] != batch_size or keys["n_step"] != 1:
        sys.exit("this rival takes one learner step an env step, with rewards of one step")
    environment = ControlSuite(config)
    common = dict(
        batch_size=batch_size,
        buffer_size=config["replay"]["max_items"],
        learning_starts=keys["random_env_steps"],
        gamma=keys["discount"],
        tau=keys["target_rate"],
        seed=config["seed"],
        device="cpu",
        policy_kwargs={
            "net_arch": {"pi": keys["policy_layers"], "qf": keys["critic_layers"]},
            "activation_fn": torch.nn.ReLU,
        },
    )
    if config["algorithm"] == "sac":
        return stable_baselines3.SAC("MlpPolicy", environment, **common)
    size = environment.action_space.shape[0]
    noise = NormalActionNoise(np.zeros(size), np.full(size, keys["sigma"]))
    return stable_baselines3.TD3("MlpPolicy", environment, action_noise=noise, **common)


def best_threads(config):
    """Of 1 and 2: with which a learner step is faster, on random items."""
    seconds = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        agent = make_agent(config)
        agent.learn(min(1000, agent.learning_starts))  # actions are random, nothing is learned
        agent.train(THREADS_STEPS // 10, agent.batch_size)
        start = time.perf_counter()
        agent.train(THREADS_STEPS, agent.batch_size)
        seconds[threads] = time.perf_counter() - start
    print(f"seconds of {THREADS_STEPS} learner steps by threads: {seconds}", file=sys.stderr, flush=True)
    return min(seconds, key=seconds.get)


class UntilReturn(BaseCallback):
    """Evaluates as Troupe does, and ends training at the return or the time limit."""

    def __init__(self, task, config):
        super().__init__()
        self.task, self.config = task, config
        self.wall_s = self.step_s = None

    def _on_training_start(self):
        # The actor itself takes `deterministic` in SAC alone.
        policy = lambda observation: self.model.policy._predict(observation, deterministic=True)
        self.evaluator = torch_train.Evaluator(self.config, policy, self.config["seed"] + 1)
        self.start = time.perf_counter()
        self.learning_s = self.evaluating_s = 0

    def _on_step(self):
        now = time.perf_counter()
        learned = self.num_timesteps - self.model.learning_starts
        if learned == 0:
            self.learning_s = now
        if learned > 0 and learned % self.config["evaluator"]["every_learner_steps"] == 0:
            self.model.policy.set_training_mode(False)
            with torch.no_grad():
                mean = self.evaluator.mean_return()
            after = time.perf_counter()
            print(f"{after - self.start:.1f} s: {learned} learner steps, return {mean:.1f}", file=sys.stderr, flush=True)
            self.evaluating_s += after - now
            self.step_s = (after - self.learning_s - self.evaluating_s) / learned
            if mean >= self.task.threshold:
                self.wall_s = after - self.start
        return self.wall_s is None and now - self.start < agent_tasks.LIMIT_S


def main():
    for task in agent_tasks.TASKS:
        config = settings(task)
        torch.set_num_threads(best_threads(config))
        until = UntilReturn(task, config)
        make_agent(config).learn(sys.maxsize, callback=until)
        task.report(until.wall_s, until.step_s, stable_baselines3.__version__)


if __name__ == "__main__":
    main()
