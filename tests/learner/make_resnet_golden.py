#!/usr/bin/env python3
"""Writes golden/resnet.safetensors: whole steps of algorithms/resnet in PyTorch, in float64, of layers and optimiser of
PyTorch's own: a narrow ResNet-20, and short bottleneck networks of both variants with the stem of ImageNet.

Usage: make_resnet_golden.py [OUTPUT]   (environment: tools/python_env.sh torch)
"""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

from make_d4pg_golden import save_safetensors

STEPS, ROWS, CLASSES = 2, 6, 7


class Convolution(nn.Module):
    """A convolution and batch norm."""

    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, filters, stride, kind):
        super().__init__()
        if kind == "basic":
            outputs = filters
            layers = [Convolution(inputs, outputs, 3, stride), Convolution(outputs, outputs, 3)]
        else:
            outputs = 4 * filters
            strides = (stride, 1) if kind == "v1" else (1, stride)
            layers = [Convolution(inputs, filters, 1, strides[0]), Convolution(filters, filters, 3, strides[1]),
                      Convolution(filters, outputs, 1)]
        self.convs = nn.ModuleList(layers)
        self.outputs = outputs
        self.shortcut = None
        self.stride, self.more = stride, outputs - inputs
        if kind != "basic" and (stride > 1 or inputs != outputs):
            self.shortcut = Convolution(inputs, outputs, 1, stride)

    def forward(self, x):
        y = x
        for i, conv in enumerate(self.convs):
            y = conv(y) if i + 1 == len(self.convs) else conv(y).relu()
        if self.shortcut is not None:
            x = self.shortcut(x)
        else:
            x = functional.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.more))
        return (x + y).relu()


class Network(nn.Module):
    def __init__(self, kind, blocks, filters):
        super().__init__()
        self.imagenet = kind != "basic"
        self.stem = Convolution(3, filters, 7, 2) if self.imagenet else Convolution(3, filters, 3)
        self.stages, width = nn.ModuleList(), filters
        for stage, count in enumerate(blocks):
            members = nn.ModuleList()
            for block in range(count):
                members.append(Block(width, filters * 2**stage, 2 if stage > 0 and block == 0 else 1, kind))
                width = members[-1].outputs
            self.stages.append(members)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        x = self.stem(x).relu()
        if self.imagenet:
            x = functional.max_pool2d(x, 3, 2, 1)
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return self.head(x.mean((2, 3)))

    def convolutions(self):
        yield "stem", self.stem
        for s, stage in enumerate(self.stages):
            for b, block in enumerate(stage):
                for c, conv in enumerate(block.convs):
                    yield f"stage{s + 1}/block{b + 1}/conv{c + 1}", conv
                if block.shortcut is not None:
                    yield f"stage{s + 1}/block{b + 1}/shortcut", block.shortcut


def export(out, prefix, network):
    def put(name, tensor):
        out[f"{prefix}/{name}"] = tensor.detach().clone().contiguous()

    for name, layer in network.convolutions():
        put(f"resnet/{name}/weight", layer.conv.weight.permute(2, 3, 1, 0))
        put(f"resnet/{name}/gain", layer.norm.weight)
        put(f"resnet/{name}/offset", layer.norm.bias)
        put(f"state/resnet/{name}/mean", layer.norm.running_mean)
        put(f"state/resnet/{name}/variance", layer.norm.running_var)
    put("resnet/head/weight", network.head.weight.T)
    put("resnet/head/bias", network.head.bias)


def train(out, name, kind, blocks, filters, size):
    network = Network(kind, blocks, filters).double()
    with torch.no_grad():
        for _, layer in network.convolutions():
            nn.init.kaiming_normal_(layer.conv.weight, mode="fan_out", nonlinearity="relu")
            layer.norm.weight.uniform_(0.5, 1.5)
            layer.norm.bias.normal_(0, 0.1)
        for tensor in [*network.parameters(), *network.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(tensor.float().double())
    image = torch.randn(ROWS, 3, size, size).float().double()
    label = torch.randint(CLASSES, (ROWS,))
    decayed = [layer.conv.weight for _, layer in network.convolutions()] + [network.head.weight]
    rest = [p for p in network.parameters() if not any(p is d for d in decayed)]
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0}],
                                lr=0.05, momentum=0.9, nesterov=True)
    out[f"{name}/image"] = image.permute(0, 2, 3, 1).float().contiguous()
    out[f"{name}/label"] = label.int()
    export(out, f"{name}/initial", network)
    for step in range(STEPS):
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)(network(image), label)
        out[f"{name}/loss/{step}"] = loss.detach()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    export(out, f"{name}/final", network)
    network.eval()
    with torch.no_grad():
        logits = network(image)
    out[f"{name}/evaluation/loss"] = nn.CrossEntropyLoss()(logits, label)
    out[f"{name}/evaluation/accuracy"] = (logits.argmax(-1) == label).double().mean()
    top5 = logits.topk(5).indices
    out[f"{name}/evaluation/top5_accuracy"] = (top5 == label[:, None]).any(-1).double().mean()


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    out = {}
    train(out, "resnet20", "basic", [3, 3, 3], 3, 8)
    train(out, "bottleneck_v1", "v1", [2, 1], 2, 16)
    train(out, "bottleneck_v1_5", "v1.5", [2, 1], 2, 16)
    # The test's tolerances are far above what float32 loses; losses and labels stay as they are.
    out = {k: v.float() if "/initial/" in k or "/final/" in k else v for k, v in out.items()}
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden" / "resnet.safetensors"
    save_safetensors(dict(sorted(out.items())), path)
    print(f"{path}: {len(out)} tensors")


if __name__ == "__main__":
    main()
