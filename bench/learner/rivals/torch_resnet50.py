#!/usr/bin/env python3
"""ResNet-50's training step in PyTorch, channels last: rival of bench/learner/resnet_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_resnet
import torch_steps

BATCH = 8


def main(only_fp32=False):
    torch_steps.print_rows("resnet50", lambda bf16: torch_resnet.training_step(BATCH, bf16=bf16), "images/s", BATCH, only_fp32)


if __name__ == "__main__":
    main()
