#!/usr/bin/env python3
"""The same network by torch.jit, traced, frozen and optimised for inference, on one thread."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from policy import ACTION, LAYERS, OBSERVATION, print_row

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers = [torch.nn.Linear(OBSERVATION, LAYERS[0]), torch.nn.LayerNorm(LAYERS[0]), torch.nn.Tanh()]
    for inputs, outputs in zip(LAYERS, LAYERS[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ELU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(LAYERS[-1], ACTION), torch.nn.Tanh()).eval()
    with torch.inference_mode():
        traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(network, torch.zeros(OBSERVATION))))
        print_row(lambda observation: traced(torch.from_numpy(observation)).numpy(), torch.__version__)
