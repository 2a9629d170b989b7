#!/usr/bin/env python3
"""The SN-GAN's training step in PyTorch on a GPU, channels last: rival of bench/learner/sngan_bench.cpp --device."""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)]
import torch_gpu_images
import torch_sngan_step
from gpu_rows import tiny

if __name__ == "__main__":
    for batch in tiny((64, 512), (4, 8)):
        make = lambda bf16, compiler: torch_sngan_step.training_step(bf16, batch, tiny((256, 128), (8, 8)), compiler)
        torch_gpu_images.print_rows(f"sngan_{batch}", make, "steps/s")
