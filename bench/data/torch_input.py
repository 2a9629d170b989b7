"""PyTorch's DataLoader on the files that input_bench has written: the rivals of the input bench."""
import json
import pathlib
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.transforms import v2

FILES = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "bench" / "input_files" / "train"
BATCH, SIDE, WARM_UP, SECONDS = 64, 224, 4, 5.0
# What every image goes through, after it is an image of PyTorch's or of Pillow's.
AUGMENTATIONS = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
NUMBERS = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]


class Folder(Dataset):
    def __init__(self, load):
        self.load = load
        self.files = sorted(FILES.glob("*/*.jpg"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.load(self.files[index]), int(self.files[index].parent.name)


class Endless(Sampler):
    """Random orders of all images, one after the other, so that no epoch's end holds up the workers."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count).tolist()


def images_per_second(load, workers):
    folder = Folder(load)
    loader = iter(DataLoader(folder, BATCH, sampler=Endless(len(folder)), num_workers=workers))
    for _ in range(WARM_UP * workers):
        next(loader)
    images, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        images += len(next(loader)[1])
    return images / (time.perf_counter() - begin)


def measure(load, version):
    """load: a file to float32 [3, 224, 224]. Prints the rows."""
    if not FILES.is_dir():
        sys.exit(f"{FILES} is not there: input_bench writes it")
    torch.set_num_threads(1)
    for name, workers in (("image_folder_1_thread", 1), ("image_folder_2_threads", 2)):
        rate = images_per_second(load, workers)
        print(json.dumps({"name": name, "value": rate, "unit": "images/s", "version": version}), flush=True)
