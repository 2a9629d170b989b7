#!/usr/bin/env python3
"""PyTorch's DataLoader with images that torchvision decodes (libjpeg-turbo) and crops and resizes as tensors."""
import pathlib
import sys

import torchvision
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_input

TRANSFORM = v2.Compose([*torch_input.AUGMENTATIONS, *torch_input.NUMBERS])


def load(path):
    return TRANSFORM(decode_jpeg(read_file(str(path)), mode=ImageReadMode.RGB))


if __name__ == "__main__":
    torch_input.measure(load, torchvision.__version__)
