#!/usr/bin/env python3
"""The D4PG learner step in JAX on a GPU: rival of bench/learner/learner_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import jax_gpu_steps as steps

if __name__ == "__main__":
    steps.print_rows("d4pg_step", steps.options(observation_size=steps.sizes.OBSERVATION))
