#!/usr/bin/env python3
"""The D4PG learner step from images in PyTorch on a GPU, channels last: rival of bench/learner/pixels_gpu_bench.cpp."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_gpu_steps as steps
import torch
import torch_d4pg
import torch_pixels

if __name__ == "__main__":
    options = steps.options(steps.sizes.FEATURES)
    with steps.torch_forms.DEVICE:
        batch = torch_d4pg.random_batch(options, steps.sizes.BATCH, (steps.sizes.CHANNELS, steps.sizes.SIDE, steps.sizes.SIDE))
    for image in (0, 4):
        batch[image] = batch[image].contiguous(memory_format=torch.channels_last)
    steps.print_rows("pixels_step", lambda: torch_pixels.Learner(options), batch)
