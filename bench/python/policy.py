#!/usr/bin/env python3
"""A policy's action for one observation from Python, NumPy in and out: `Run.policy().act()` of a D4PG run on cheetah-run,
17 observations to 6 actions through 256-256-256, by the wheel that python/build_wheel.sh makes. Calls a second."""
import tempfile

from wheel_rows import main, per_second, report

OBSERVATION, LAYERS, ACTION = 17, (256, 256, 256), 6
SECONDS, CALLS_BETWEEN_CLOCKS = 3, 200


def print_row(act, version=None):
    """act: of one observation, float32 [OBSERVATION]."""
    import numpy as np

    observation = np.random.default_rng(1).normal(size=OBSERVATION).astype(np.float32)
    for _ in range(CALLS_BETWEEN_CLOCKS):
        action = act(observation)
    assert action.shape == (ACTION,) and np.isfinite(action).all()
    rate = per_second(lambda: act(observation), 1, CALLS_BETWEEN_CLOCKS, SECONDS)
    report("policy_batch_1", rate, "calls/s", version)


def measure():
    import troupe

    with tempfile.TemporaryDirectory() as folder:
        run = troupe.run("cheetah_run", run_dir=folder + "/run", max_env_steps=3000, d4pg={"policy_layers": list(LAYERS)})
        run.wait(120)
        print_row(run.policy().act)


if __name__ == "__main__":
    main(measure, __file__)
