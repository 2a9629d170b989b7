#!/usr/bin/env python3
"""The step of jax_learner.py with bfloat16 operands and float32 sums in its matrix products, as Troupe's bf16 rows have."""
from jax_learner import main

if __name__ == "__main__":
    main({1: ["d4pg_step_bf16_1_thread"], 2: ["d4pg_step_bf16_2_threads"]}, "bfloat16")
