#!/usr/bin/env python3
"""Writes golden/sngan_resnet.safetensors: two steps of learner/sngan's residual networks in PyTorch, in float64.

32 x 32 pixels in colour with few channels, unconditional and conditional; the generator moves in the second step (n_dis
2). The networks are bench/learner/torch_sngan.py, the rival of the benches, so that what is raced is what is compared
here. Adam's epsilon is large, so that rounding is not what decides about an update.

Usage: make_sngan_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import pathlib
import sys

import torch
from torch import nn

from make_d4pg_golden import save_safetensors

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "learner"))
from torch_sngan import Discriminator, Generator, losses, update  # noqa: E402

ROWS, NOISE, WIDTH_G, WIDTH_D, CLASSES = 3, 5, 3, 4, 2
SLOTS = (("", None), (".adam_m", "exp_avg"))  # beta1 is 0: the gradient


def ours(group, path, tensor):
    """Troupe's name and layout of a PyTorch parameter or buffer; None for what Troupe does not have."""
    *layers, kind = path.split(".")
    if kind == "num_batches_tracked" or kind == "weight_v":
        return None
    names = {"weight_orig": "weight", "running_mean": "mean", "running_var": "variance", "weight_u": "u"}
    kind = names.get(kind, kind)
    table = layers[-1] in ("gain", "offset", "embedding")
    if layers[-1] in ("gain", "offset"):  # a conditional norm's tables
        kind = layers.pop()
    if len(layers) > 1 and layers[-1] == "norm":  # the batch norm within a Norm
        layers.pop()
        kind = {"weight": "gain", "bias": "offset"}.get(kind, kind)
    if layers[0] == "blocks":
        layers = [f"block{layers[1]}", *layers[2:]]
    state = kind in ("mean", "variance", "u")
    if tensor.dim() == 4:
        tensor = tensor.permute(2, 3, 1, 0)
    elif tensor.dim() == 2 and not table:
        tensor = tensor.T
    return f"{'state/' if state else ''}{group}/{'/'.join(layers)}/{kind}", tensor


def export(out, prefix, group, network, optimizer=None):
    for path, tensor in [*network.named_parameters(), *network.named_buffers()]:
        for suffix, slot in SLOTS if optimizer and isinstance(tensor, nn.Parameter) else SLOTS[:1]:
            value = optimizer.state[tensor][slot] if slot else tensor
            named = ours(group, path, value)
            if named:
                name, value = named
                out[f"{prefix}/{name}{suffix}"] = value.detach().contiguous().clone()


def exact_in_float32(module):
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(tensor.float().double())


def run(out, prefix, classes):
    generator = Generator(32, 3, NOISE, WIDTH_G, classes).double()
    discriminator = Discriminator(32, 3, WIDTH_D, classes).double()
    with torch.no_grad():  # gains and offsets that are not all alike
        for name, parameter in generator.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    exact_in_float32(generator)
    exact_in_float32(discriminator)
    image = torch.tanh(torch.randn(ROWS, 3, 32, 32)).float().double()
    noise = torch.randn(ROWS, NOISE).float().double()
    label = torch.arange(ROWS) % classes if classes else None
    out[f"{prefix}/image"] = image.permute(0, 2, 3, 1).contiguous().float()
    out[f"{prefix}/noise"] = noise.float()
    if classes:
        out[f"{prefix}/label"] = label.int()
    export(out, f"{prefix}/initial", "generator", generator)
    export(out, f"{prefix}/initial", "discriminator", discriminator)
    make = lambda network: torch.optim.Adam(network.parameters(), lr=0.01, betas=(0.0, 0.9), eps=1e-2)
    optimizer_g, optimizer_d = make(generator), make(discriminator)
    for step in range(2):
        loss_d, loss_g = losses(generator, discriminator, image, noise, label)
        out[f"{prefix}/discriminator_loss/{step}"] = loss_d.detach().clone()
        out[f"{prefix}/generator_loss/{step}"] = loss_g.detach().clone()
        update(loss_d, loss_g if step == 1 else None, discriminator, generator, optimizer_d, optimizer_g)
    export(out, f"{prefix}/final", "generator", generator, optimizer_g)
    export(out, f"{prefix}/final", "discriminator", discriminator, optimizer_d)


def main():
    torch.manual_seed(6)
    torch.set_num_threads(1)
    out = {}
    run(out, "plain", 0)
    run(out, "conditional", CLASSES)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "sngan_resnet.safetensors"
    save_safetensors(dict(sorted(out.items())), path)
    print(f"{path}: {len(out)} tensors")


if __name__ == "__main__":
    main()
