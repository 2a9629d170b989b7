#!/usr/bin/env python3
"""Writes golden/replicas.safetensors: a few whole steps of algorithms/classifier and algorithms/sngan in PyTorch, in float64.

Built of PyTorch's own layers and optimisers: BatchNorm1d, CrossEntropyLoss with smoothing, SGD with Nesterov momentum
under a cosine schedule; spectral_norm, Adam. Both losses of the GAN are taken at the same parameters, as in a step of
ours. Real and fake images go through the discriminator in one call, because PyTorch iterates once a call and we once a
step. Adam's epsilon is large, so that rounding is not what decides about an update.

Usage: make_replicas_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import pathlib
import sys
import warnings

import torch
from torch import nn

from make_d4pg_golden import save_safetensors

STEPS, ROWS = 4, 12


class Exporter:
    """Parameters, states and slots under the names of learner/engine/program_state.hpp."""

    def __init__(self):
        self.out = {}

    def put(self, name, tensor):
        self.out[name] = tensor.detach().clone()

    def put_layer(self, prefix, group, index, module, optimizer=None):
        layer = f"{group}/layer{index}"
        for kind, parameter in module.named_parameters(recurse=False):
            norm = isinstance(module, nn.BatchNorm1d)
            name = {"weight": "gain" if norm else "weight", "weight_orig": "weight", "bias": "offset" if norm else "bias"}[kind]
            matrix = name == "weight"
            self.put(f"{prefix}/{layer}/{name}", parameter.T if matrix else parameter)
            for slot, ours in (("momentum_buffer", "momentum"), ("exp_avg", "adam_m"), ("exp_avg_sq", "adam_v")):
                value = optimizer.state[parameter].get(slot) if optimizer else None
                if value is not None:
                    self.put(f"{prefix}/{layer}/{name}.{ours}", value.T if matrix else value)
        if isinstance(module, nn.BatchNorm1d):
            self.put(f"{prefix}/state/{layer}/mean", module.running_mean)
            self.put(f"{prefix}/state/{layer}/variance", module.running_var)
        if hasattr(module, "weight_u"):
            self.put(f"{prefix}/state/{layer}/u", module.weight_u)


def export(exporter, prefix, group, network, optimizer=None):
    index = -1
    for module in network:
        index += isinstance(module, nn.Linear)
        if isinstance(module, (nn.Linear, nn.BatchNorm1d)):
            exporter.put_layer(prefix, group, index, module, optimizer)


def exact_in_float32(module):
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(tensor.float().double())


def classifier(out):
    network = nn.Sequential(
        nn.Linear(6, 9, bias=False), nn.BatchNorm1d(9), nn.ReLU(),
        nn.Linear(9, 7, bias=False), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 4)).double()
    exact_in_float32(network)
    image = torch.randn(ROWS, 6).float().double()
    label = torch.randint(4, (ROWS,))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    out.put("classifier/image", image.float())
    out.put("classifier/label", label.int())
    export(out, "classifier/initial", "classifier", network)
    for step in range(STEPS):
        logits = network(image)
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, label)
        out.put(f"classifier/loss/{step}", loss)
        out.put(f"classifier/accuracy/{step}", (logits.argmax(-1) == label).double().mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    export(out, "classifier/final", "classifier", network, optimizer)


def sngan(out):
    normal = nn.utils.spectral_norm
    generator = nn.Sequential(nn.Linear(3, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh()).double()
    discriminator = nn.Sequential(
        normal(nn.Linear(6, 9), eps=1e-12), nn.LeakyReLU(0.1), normal(nn.Linear(9, 5), eps=1e-12), nn.LeakyReLU(0.1),
        normal(nn.Linear(5, 1), eps=1e-12)).double()
    exact_in_float32(generator)
    exact_in_float32(discriminator)
    average = {k: v.detach().clone() for k, v in generator.named_parameters()}
    images = [torch.tanh(torch.randn(ROWS, 6)).float().double() for _ in range(STEPS)]
    noises = [torch.randn(ROWS, 3).float().double() for _ in range(STEPS)]
    make = lambda network: torch.optim.Adam(network.parameters(), lr=0.01, betas=(0.0, 0.9), eps=1e-2)
    generator_optimizer, discriminator_optimizer = make(generator), make(discriminator)
    export(out, "sngan/initial", "generator", generator)
    export(out, "sngan/initial", "discriminator", discriminator)
    for step, (image, noise) in enumerate(zip(images, noises)):
        out.put(f"sngan/image/{step}", image.float())
        out.put(f"sngan/noise/{step}", noise.float())
        real, fake = discriminator(torch.cat([image, generator(noise)])).split(ROWS)
        discriminator_loss = (1 - real).relu().mean() + (1 + fake).relu().mean()
        generator_loss = -fake.mean()
        out.put(f"sngan/discriminator_loss/{step}", discriminator_loss)
        out.put(f"sngan/generator_loss/{step}", generator_loss)
        updates = [(discriminator_loss, discriminator, discriminator_optimizer)]
        if step % 2 == 1:  # n_dis 2
            updates.append((generator_loss, generator, generator_optimizer))
        for loss, network, _ in updates:
            gradients = torch.autograd.grad(loss, list(network.parameters()), retain_graph=True)
            for parameter, gradient in zip(network.parameters(), gradients):
                parameter.grad = gradient
        for _, _, optimizer in updates:
            optimizer.step()
        if step % 2 == 1:
            for k, v in generator.named_parameters():
                average[k] = 0.9 * average[k] + 0.1 * v.detach()
    export(out, "sngan/final", "generator", generator, generator_optimizer)
    export(out, "sngan/final", "discriminator", discriminator, discriminator_optimizer)
    with torch.no_grad():
        for k, v in generator.named_parameters():
            v.copy_(average[k])
    averaged = Exporter()
    export(averaged, "sngan/final", "generator.average", generator)
    out.out.update({k: v for k, v in averaged.out.items() if "/state/" not in k})


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    out = Exporter()
    classifier(out)
    sngan(out)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "replicas.safetensors"
    save_safetensors(dict(sorted(out.out.items())), path)
    print(f"{path}: {len(out.out)} tensors")


if __name__ == "__main__":
    main()
