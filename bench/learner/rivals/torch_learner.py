#!/usr/bin/env python3
"""The D4PG learner step in PyTorch: rival of bench/learner/learner_bench.cpp, same networks, losses and clipping.

On AMD processors its MKL takes AVX-512 paths only when told that the processor is Intel's; bench/sides.py preloads that
answer, so that the rival runs at its best.
"""
import json
import os
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_d4pg

OPTIONS = torch_d4pg.Options(observation_size=17, action_size=6)
BATCH, SECONDS = 256, 4.0


def main():
    torch.manual_seed(1)
    cores = len(os.sched_getaffinity(0))
    for threads, name in ((1, "d4pg_step_1_thread"), (2, "d4pg_step_2_threads")):
        if cores >= threads:
            rate = torch_d4pg.steps_per_second(OPTIONS, BATCH, threads, SECONDS)
            print(json.dumps({"name": name, "value": rate, "unit": "steps/s", "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
