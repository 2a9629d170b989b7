#!/usr/bin/env python3
"""64 environments of cheetah-run through Gymnasium's vector interface, of the wheel that python/build_wheel.sh makes, two
threads, random actions that were drawn before. `native` is the same by the C++ VectorEnv alone, for which the interface
makes arrays, flags and copies."""
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
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


def main():
    python = subprocess.run([ROOT / "tools/python_env.sh", "wheel"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        wheel = subprocess.run([ROOT / "python/build_wheel.sh", folder], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", f"{folder}/site", wheel], check=True)
        environment = os.environ | {"PYTHONPATH": f"{folder}/site"}
        subprocess.run([python, "-B", __file__, "measure"], env=environment, check=True)


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["measure"] else main()
