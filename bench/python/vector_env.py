#!/usr/bin/env python3
"""64 environments of cheetah-run through Gymnasium's vector interface, of the wheel that python/build_wheel.sh makes, two
threads, random actions that were drawn before. `native` is the same by the C++ VectorEnv alone, for which the interface
makes arrays, flags and copies."""
from wheel_rows import main, per_second, report

COUNT, THREADS, SECONDS, STEPS_BETWEEN_CLOCKS = 64, 2, 3, 50


def steps_per_second(step):
    for _ in range(STEPS_BETWEEN_CLOCKS):
        step()
    return per_second(step, COUNT, STEPS_BETWEEN_CLOCKS, SECONDS)


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

    report(f"vector_env_cheetah_run_{COUNT}", value, "steps/s", limits={"native": steps_per_second(native)})


if __name__ == "__main__":
    main(measure, __file__)
