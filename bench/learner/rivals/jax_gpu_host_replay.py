#!/usr/bin/env python3
"""D4PG on a GPU in JAX with cpprb's prioritised replay on the host: rival of bench/learner/learner_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import jax_gpu_steps as steps
import jax
import jax_d4pg
import numpy as np

sizes = steps.sizes
import host_replay


def steps_per_second(replay, launch):
    names = [*host_replay.COLUMNS, "weight"]
    options = steps.options(observation_size=sizes.OBSERVATION)
    state, step = jax_d4pg.initial_state(options, np.random.default_rng(1)), jax_d4pg.make_step(options)

    def on_columns(state, columns):
        shaped = {}
        for name, column in zip(names, columns):
            width = column.shape[1:] if column.shape[1] > 1 else ()
            shaped[name] = column.reshape(launch, sizes.BATCH, *width)
        return jax.lax.scan(step, state, shaped)

    compiled, td_error = jax.jit(on_columns, donate_argnums=0), None

    def begin(columns):
        nonlocal state, td_error
        columns = jax.device_put([column.astype(np.float32) for column in columns], steps.DEVICE)
        state, td_error = compiled(state, columns)

    value = host_replay.rate(replay, launch, begin, lambda: np.asarray(td_error).reshape(-1))
    assert np.isfinite(td_error).all()
    return value


def main():
    replay = host_replay.fill()
    for suffix in steps.rows():
        value = max(steps_per_second(replay, launch) for launch in sizes.LAUNCHES)
        steps.gpu_rows.report("d4pg_host_replay" + suffix, value, "steps/s", jax.__version__)


if __name__ == "__main__":
    main()
