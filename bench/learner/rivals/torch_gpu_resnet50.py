#!/usr/bin/env python3
"""ResNet-50's training step in PyTorch on a GPU, channels last: rival of bench/learner/resnet_bench.cpp --device."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)]
import torch_gpu_images
import torch_resnet
from gpu_rows import tiny

if __name__ == "__main__":
    batch, size = tiny(256, 2), tiny(224, 32)
    make = lambda bf16, compiler: torch_resnet.training_step(batch, size, bf16, compiler)
    torch_gpu_images.print_rows(f"resnet50_{batch}", make, "images/s", batch, bf16_alone=True)
