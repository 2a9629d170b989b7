#!/usr/bin/env python3
"""The D4PG learner step in PyTorch on a GPU: rival of bench/learner/learner_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_gpu_steps as steps
import torch_d4pg

if __name__ == "__main__":
    options = steps.options(steps.sizes.OBSERVATION)
    with steps.torch_forms.DEVICE:
        batch = torch_d4pg.random_batch(options, steps.sizes.BATCH, (options.observation_size,))
    steps.print_rows("d4pg_step", lambda: torch_d4pg.Learner(options), batch)
