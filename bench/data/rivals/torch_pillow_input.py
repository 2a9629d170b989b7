#!/usr/bin/env python3
"""PyTorch's DataLoader with images that Pillow decodes, crops and resizes, as most training scripts have it."""
import pathlib
import sys

import PIL
from PIL import Image
from torchvision.transforms import v2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_input

TRANSFORM = v2.Compose([*torch_input.AUGMENTATIONS, v2.ToImage(), *torch_input.NUMBERS])


def load(path):
    with Image.open(path) as image:
        return TRANSFORM(image.convert("RGB"))


if __name__ == "__main__":
    torch_input.measure(load, PIL.__version__)
