#!/usr/bin/env python3
"""The SN-GAN's training step in PyTorch, channels last: rival of bench/learner/sngan_bench.cpp."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_sngan
import torch_steps

BATCH, NOISE = 64, 128


def training_step(bf16):
    torch.manual_seed(1)
    generator = torch_sngan.Generator(32, 3, NOISE, 256).to(memory_format=torch.channels_last)
    discriminator = torch_sngan.Discriminator(32, 3, 128).to(memory_format=torch.channels_last)
    optimizers = [torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.0, 0.9), fused=True)
                  for network in (discriminator, generator)]
    image = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    noise = torch.randn(BATCH, NOISE)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss_d, loss_g = torch_sngan.losses(generator, discriminator, image, noise)
        torch_sngan.update(loss_d, loss_g, discriminator, generator, *optimizers)

    return step


def main(only_fp32=False):
    torch_steps.print_rows("sngan", training_step, "steps/s", only_fp32=only_fp32)


if __name__ == "__main__":
    main()
