#!/usr/bin/env python3
"""ResNet-50's training step in PyTorch, channels last: rival of bench/learner/resnet_bench.cpp."""
import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_resnet

BATCH, SECONDS = 8, 10.0
ROWS = [(f"resnet50{'_bf16' if bf16 else ''}_{threads}_thread{'s' * (threads > 1)}", threads, bf16)
        for bf16 in (False, True) for threads in (1, 2)]


def main(rows):
    for name, threads, bf16 in rows:
        step = torch_resnet.training_step(BATCH, bf16=bf16)
        rate = BATCH * torch_resnet.steps_per_second(step, threads, SECONDS)
        print(json.dumps({"name": name, "value": rate, "unit": "images/s", "version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main(ROWS)
