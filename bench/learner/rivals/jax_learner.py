#!/usr/bin/env python3
"""The D4PG learner step in JAX: rival of bench/learner/learner_bench.cpp, same networks, losses and clipping.

One jitted function with donated state, in float32. The bfloat16 rows of Troupe are set beside the same numbers, since
they are what a JAX user has by default; jax_bf16_learner.py is the like-for-like rival. XLA's thread pool takes its size
from the processor affinity at start, so every measurement has a process of its own, pinned before JAX is imported.
"""
import json
import multiprocessing
import os
import pathlib
import sys
import time

SECONDS = 4.0


def measure(rows, threads, matmul_dtype):
    """Prints one line for each row name; they share the one measurement."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    import jax
    import jax_d4pg
    import numpy as np

    generator, options = np.random.default_rng(1), jax_d4pg.Options(17, 6, matmul_dtype=matmul_dtype)
    state, batch = jax_d4pg.initial_state(options, generator), jax_d4pg.random_batch(options, generator)
    compiled = jax.jit(jax_d4pg.make_step(options), donate_argnums=0)
    for _ in range(20):
        state, td_error = compiled(state, batch)
    td_error.block_until_ready()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(10):
            state, td_error = compiled(state, batch)
        td_error.block_until_ready()
        steps += 10
    rate = steps / (time.perf_counter() - start)
    assert np.isfinite(td_error).all()
    for name in rows:
        print(json.dumps({"name": name, "value": rate, "unit": "steps/s", "version": jax.__version__}), flush=True)


def main(rows, matmul_dtype):
    """rows: thread count -> names of the rows that it is the value of."""
    for threads, names in rows.items():
        if len(os.sched_getaffinity(0)) < threads:
            continue
        process = multiprocessing.get_context("spawn").Process(target=measure, args=(names, threads, matmul_dtype))
        process.start()
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main(
        {
            1: ["d4pg_step_1_thread", "d4pg_step_bf16_1_thread"],
            2: ["d4pg_step_2_threads", "d4pg_step_bf16_2_threads"],
        },
        "float32",
    )
