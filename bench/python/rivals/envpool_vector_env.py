#!/usr/bin/env python3
"""EnvPool's Gymnasium interface on the same: 64 environments of cheetah-run, two threads, synchronous."""
import importlib.metadata
import pathlib
import sys

import envpool
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from vector_env import COUNT, THREADS, steps_per_second
from wheel_rows import report

if __name__ == "__main__":
    envs = envpool.make("CheetahRun-v1", "gymnasium", num_envs=COUNT, num_threads=THREADS, seed=1)
    envs.reset()
    actions = np.random.default_rng(2).uniform(-1, 1, (COUNT, *envs.action_space.shape)).astype(envs.action_space.dtype)
    value = steps_per_second(lambda: envs.step(actions))
    report(f"vector_env_cheetah_run_{COUNT}", value, "steps/s", importlib.metadata.version("envpool"))
