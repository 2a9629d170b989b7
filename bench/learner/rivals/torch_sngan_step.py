#!/usr/bin/env python3
"""The SN-GAN's training step in PyTorch, channels last: rival of bench/learner/sngan_bench.cpp."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_sngan
import torch_steps

BATCH, NOISE = 64, 128


def training_step(bf16, batch=BATCH, widths=(256, 128), compiler=lambda function: function):
    """A function that takes a step, on the default device. widths: channels of the generator and the discriminator;
    compiler: what the losses go through."""
    torch.manual_seed(1)
    generator = torch_sngan.Generator(32, 3, NOISE, widths[0]).to(memory_format=torch.channels_last)
    discriminator = torch_sngan.Discriminator(32, 3, widths[1]).to(memory_format=torch.channels_last)
    image = torch.randn(batch, 3, 32, 32).to(memory_format=torch.channels_last)
    noise = torch.randn(batch, NOISE)
    optimizers = [torch.optim.Adam(network.parameters(), lr=2e-4, betas=(0.0, 0.9), fused=True, capturable=image.is_cuda)
                  for network in (discriminator, generator)]

    def losses(image, noise):
        with torch.autocast(image.device.type, dtype=torch.bfloat16, enabled=bf16):
            return torch_sngan.losses(generator, discriminator, image, noise)

    losses = compiler(losses)

    def step():
        loss_d, loss_g = losses(image, noise)
        torch_sngan.update(loss_d, loss_g, discriminator, generator, *optimizers)

    return step


def main(only_fp32=False):
    torch_steps.print_rows("sngan", training_step, "steps/s", only_fp32=only_fp32)


if __name__ == "__main__":
    main()
