#!/usr/bin/env python3
"""Prints the losses of ResNet-50 v1.5 in PyTorch, one a line, from the weights and on the batches of a file.

Usage: make_resnet50_losses.py FILE [DTYPE]   (environment: tools/python_env.sh torch; DTYPE: float32, or float64 to see
what float32 costs PyTorch)

FILE is what tests/algorithms/resnet/torch_losses_test.cpp writes: Troupe's initial parameters by name; batches/grey
[steps, rows, 224, 224], a channel that stands for all three; batches/label [steps, rows]; optimiser [5]: learning rate,
steps of its warm-up, momentum, weight decay, label smoothing. Images are in PyTorch's own order: with channels_last its
batch norm is off from float64 by 4e-5, thirty times as much as without.
"""
import json
import sys

import torch
from torch import nn

from make_resnet_golden import Network

CLASSES = 10


def load_safetensors(path):
    """The torch environment has no package for it."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = bytearray(file.read())
    header.pop("__metadata__", None)
    dtypes = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32}
    return {name: torch.frombuffer(memoryview(data)[slice(*entry["data_offsets"])], dtype=dtypes[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in header.items()}


def load_weights(network, tensors):
    """Sets every parameter, and returns those that decay and the others."""
    decayed, others = [], []

    def put(parameter, name, kept, order=None):
        tensor = tensors["resnet/" + name]
        parameter.copy_(tensor if order is None else tensor.permute(order))
        kept.append(parameter)

    with torch.no_grad():
        for name, layer in network.convolutions():
            put(layer.conv.weight, name + "/weight", decayed, (3, 2, 0, 1))
            put(layer.norm.weight, name + "/gain", others)
            put(layer.norm.bias, name + "/offset", others)
        put(network.head.weight, "head/weight", decayed, (1, 0))
        put(network.head.bias, "head/bias", others)
    assert len(decayed) + len(others) == len(list(network.parameters()))
    return decayed, others


def main():
    tensors = load_safetensors(sys.argv[1])
    dtype = getattr(torch, sys.argv[2]) if len(sys.argv) > 2 else torch.float32
    rate, warmup, momentum, decay, smoothing = tensors["optimiser"].tolist()
    network = Network("v1.5", [3, 4, 6, 3], 64)
    network.head = nn.Linear(2048, CLASSES)
    network = network.to(dtype)
    decayed, others = load_weights(network, tensors)
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": decay}, {"params": others, "weight_decay": 0}],
                                lr=rate, momentum=momentum, nesterov=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    for step, (grey, label) in enumerate(zip(tensors["batches/grey"], tensors["batches/label"])):
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / warmup, 1)
        image = grey.to(dtype)[:, None].expand(-1, 3, -1, -1).contiguous()
        loss = criterion(network(image), label.long())
        print(repr(loss.item()), flush=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
