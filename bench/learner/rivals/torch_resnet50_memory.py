#!/usr/bin/env python3
"""The most memory resident in training steps of ResNet-50 in PyTorch: rival of bench/learner/resnet_memory_bench.cpp."""
import json
import multiprocessing
import pathlib
import resource
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_resnet

BATCH = 8


def main(bf16, pipe):
    torch.set_num_threads(1)
    step = torch_resnet.training_step(BATCH, bf16=bf16)
    for _ in range(3):
        step()
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    for name, bf16 in (("resnet50_memory", False), ("resnet50_memory_bf16", True)):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=main, args=(bf16, there))
        process.start()
        value = here.recv()
        process.join()
        print(json.dumps({"name": name, "value": value, "unit": "MiB", "version": torch.__version__}), flush=True)
