#!/usr/bin/env python3
"""64 environments of cheetah-run through Gymnasium's vector interface, of the wheel that python/build_wheel.sh makes, two
threads, random actions that were drawn before. `native` is the same by the C++ VectorEnv alone, for which the interface
makes arrays, flags and copies."""
import importlib.metadata
import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT, THREADS, SECONDS, STEPS_BETWEEN_CLOCKS = 64, 2, 3, 50


def steps_per_second(step):
    for _ in range(STEPS_BETWEEN_CLOCKS):
        step()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(STEPS_BETWEEN_CLOCKS):
            step()
        steps += STEPS_BETWEEN_CLOCKS * COUNT
    return steps / (time.perf_counter() - start)


def measure():
    import gymnasium
    import numpy as np

    import troupe.gym

    envs = gymnasium.make_vec("troupe/cheetah-run", num_envs=COUNT, threads=THREADS)
    envs.reset(seed=1)
    actions = envs.action_space.sample()
    value = steps_per_second(lambda: envs.step(actions))

    core = troupe.VectorEnv("cheetah-run", COUNT, THREADS)
    row_bytes = np.ascontiguousarray(actions).view(np.uint8)
    moves = np.ones(COUNT, np.uint8)  # reset
    core.advance(moves, row_bytes)
    taken = 0

    def native():
        nonlocal taken
        taken += 1
        moves[:] = 1 if taken % core.episode_steps == 0 else 2  # all end together
        core.advance(moves, row_bytes)

    limits = {"native": steps_per_second(native)}
    print(json.dumps({"name": f"vector_env_cheetah_run_{COUNT}", "value": value, "unit": "steps/s",
                      "version": importlib.metadata.version("troupe"), "limits": limits}), flush=True)


if __name__ == "__main__":
    if "TROUPE_SITE" in os.environ:
        measure()
    else:
        subprocess.run([ROOT / "python/with_wheel.sh", __file__], check=True)
