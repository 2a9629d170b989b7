"""Rows of D4PG steps in JAX on one batch that lies in the GPU's memory, for the rivals of learner and pixels.

Several steps are one lax.scan, compiled once, whose state is donated.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import gpu_rows
import gpu_sizes as sizes
import jax
import numpy as np

import jax_d4pg

DEVICE = jax.devices("cpu")[0] if gpu_rows.TRIAL else jax.devices("gpu")[int(gpu_rows.DEVICE.split(":")[1])]
# "tensorfloat32" is what JAX does without being asked.
PRECISIONS = {"": "float32", "_tf32": "tensorfloat32"}


def options(**others):
    return jax_d4pg.Options(
        action_size=sizes.ACTIONS,
        batch=sizes.BATCH,
        policy_sizes=sizes.POLICY_LAYERS,
        critic_sizes=sizes.CRITIC_LAYERS,
        **others,
    )


def rows():
    """(suffix of a row); while its body runs, JAX is set up for that row."""
    for suffix, precision in PRECISIONS.items():
        with jax.default_device(DEVICE), jax.default_matmul_precision(precision):
            jax.clear_caches()
            yield suffix


def print_rows(row, options):
    for suffix in rows():
        generator = np.random.default_rng(1)
        state, batch = jax_d4pg.initial_state(options, generator), jax_d4pg.random_batch(options, generator)
        step = jax_d4pg.make_step(options)

        def steps(state, batch):
            def one(state, _):
                state, td_error = step(state, batch)
                return state, td_error.mean()

            return jax.lax.scan(one, state, length=sizes.STEPS)

        compiled, loss = jax.jit(steps, donate_argnums=0), None

        def call():
            nonlocal state, loss
            state, loss = compiled(state, batch)

        value = gpu_rows.rate(call, sizes.STEPS, lambda: loss.block_until_ready())
        assert np.isfinite(loss).all()
        gpu_rows.report(row + suffix, value, "steps/s", jax.__version__)
