"""learner/sngan's residual networks in PyTorch: the rival of the benches and the oracle of tests/learner/make_sngan_golden.py.

Layers, initial values and hyperparameters are the paper's (pfnet-research/sngan_projection), as in algorithms/sngan/resnet.hpp.
Real and fake images go through the discriminator in one call, because PyTorch iterates spectral norm's u once a call and
we once a step. Both losses are taken at the same parameters, as in a step of ours.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import spectral_norm

RELU_GAIN = math.sqrt(2)


def plan(side, g, d):
    """(side of the generator's first image, its channels, the discriminator's channels, halvings), as resnet_plan()."""
    bottom, doublings = side, 0
    while bottom > 7 and bottom % 2 == 0:
        bottom, doublings = bottom // 2, doublings + 1
    if side <= 32:
        return bottom, [g] * (doublings + 1), [d] * 4, min(doublings, 2)
    return (bottom, [g * min(16, 2 ** (doublings - i)) for i in range(doublings + 1)],
            [d * min(16, 2**i) for i in range(doublings + 1)], 5)


def glorot(layer, gain=1.0):
    nn.init.xavier_uniform_(layer.weight, gain)
    if getattr(layer, "bias", None) is not None:
        nn.init.zeros_(layer.bias)
    return layer


def conv(inputs, outputs, kernel, gain):
    return glorot(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), gain)


def normalised(layer):
    # n_power_iterations 1, and for embeddings the same side of the matrix as ours.
    return spectral_norm(layer, eps=1e-12, dim=1 if isinstance(layer, nn.Embedding) else 0)


class Norm(nn.Module):
    """Batch norm, with classes > 0 conditional, and ReLU."""

    def __init__(self, channels, classes):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=classes == 0)
        if classes:
            self.gain, self.offset = nn.Embedding(classes, channels), nn.Embedding(classes, channels)
            nn.init.ones_(self.gain.weight)
            nn.init.zeros_(self.offset.weight)

    def forward(self, x, label):
        x = self.norm(x)
        if hasattr(self, "gain"):
            x = self.gain(label)[:, :, None, None] * x + self.offset(label)[:, :, None, None]
        return F.relu(x)


class GeneratorBlock(nn.Module):
    def __init__(self, inputs, outputs, classes):
        super().__init__()
        self.norm0, self.norm1 = Norm(inputs, classes), Norm(outputs, classes)
        self.conv0, self.conv1 = conv(inputs, outputs, 3, RELU_GAIN), conv(outputs, outputs, 3, RELU_GAIN)
        self.shortcut = conv(inputs, outputs, 1, 1)

    def forward(self, x, label):
        h = self.conv0(F.interpolate(self.norm0(x, label), scale_factor=2))
        return self.conv1(self.norm1(h, label)) + F.interpolate(self.shortcut(x), scale_factor=2)


class Generator(nn.Module):
    def __init__(self, side, channels, noise_size, width, classes=0):
        super().__init__()
        self.bottom, widths, _, _ = plan(side, width, width)
        self.input = glorot(nn.Linear(noise_size, self.bottom**2 * widths[0]))
        self.blocks = nn.ModuleList(GeneratorBlock(a, b, classes) for a, b in zip(widths, widths[1:]))
        self.norm = Norm(widths[-1], classes)
        self.output = conv(widths[-1], channels, 3, 1)

    def forward(self, noise, label=None):
        # Ours is [height, width, channels] behind the linear layer; the order matters to copied weights alone.
        x = self.input(noise).view(len(noise), self.bottom, self.bottom, -1).permute(0, 3, 1, 2)
        for block in self.blocks:
            x = block(x, label)
        return torch.tanh(self.output(self.norm(x, label)))


class DiscriminatorBlock(nn.Module):
    def __init__(self, inputs, outputs, halves, first):
        super().__init__()
        within = outputs if first else inputs
        self.halves, self.first = halves, first
        self.conv0, self.conv1 = normalised(conv(inputs, within, 3, RELU_GAIN)), normalised(conv(within, outputs, 3, RELU_GAIN))
        self.shortcut = normalised(conv(inputs, outputs, 1, 1)) if halves or inputs != outputs else None

    def forward(self, x):
        half = lambda h: F.avg_pool2d(h, 2) if self.halves else h
        h = half(self.conv1(F.relu(self.conv0(x if self.first else F.relu(x)))))
        return h + (self.shortcut(half(x)) if self.shortcut is not None else x)


class Discriminator(nn.Module):
    def __init__(self, side, channels, width, classes=0):
        super().__init__()
        _, _, widths, halvings = plan(side, width, width)
        pairs = list(zip([channels, *widths], widths))
        self.blocks = nn.ModuleList(
            DiscriminatorBlock(a, b, i < halvings, i == 0) for i, (a, b) in enumerate(pairs))
        self.output = normalised(glorot(nn.Linear(widths[-1], 1)))
        self.embedding = normalised(glorot(nn.Embedding(classes, widths[-1]))) if classes else None

    def forward(self, x, label=None):
        for block in self.blocks:
            x = block(x)
        seen = F.relu(x).sum((2, 3))
        logits = self.output(seen)
        if self.embedding is not None:
            logits = logits + (self.embedding(label) * seen).sum(1, keepdim=True)
        return logits


def losses(generator, discriminator, image, noise, label=None):
    """Hinge losses of both networks; fakes have the labels of the real images. With them the real and fake logits."""
    fake = generator(noise, label)
    labels = None if label is None else torch.cat([label, label])
    real_logit, fake_logit = discriminator(torch.cat([image, fake]), labels).split(len(image))
    return F.relu(1 - real_logit).mean() + F.relu(1 + fake_logit).mean(), -fake_logit.mean()


def update(loss_d, loss_g, discriminator, generator, optimizer_d, optimizer_g):
    """Both gradients at the same parameters, then both updates; loss_g None: the discriminator's alone."""
    updates = [(loss_d, discriminator, optimizer_d)] + ([(loss_g, generator, optimizer_g)] if loss_g is not None else [])
    for loss, network, _ in updates:
        parameters = list(network.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters, retain_graph=True)):
            parameter.grad = gradient
    for _, _, optimizer in updates:
        optimizer.step()
