#!/usr/bin/env python3
"""How good an SN-GAN's images are after equally many steps of Troupe and of PyTorch, by Troupe's judge: one model, one
configuration, one data set, some seeds each. The networks, losses and updates of both are compared number by number in
tests/algorithms/sngan/resnet_test.cpp; initial values, noise and the order of images are drawn by each on its own.

    $(tools/python_env.sh torch) bench/apps/sngan_quality.py --seeds 1 2 3       a table, as Markdown
    ... --config apps/configs/sngan_fashion.toml --steps 500 --only torch        shorter, or one side
"""
import argparse
import copy
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

import numpy
import torch

FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
GROUP = "sngan"

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("bench/learner", "tests/learner")]
from make_d4pg_golden import save_safetensors  # noqa: E402
from sngan_variants import BIN, ROOT, table, train  # noqa: E402
from torch_sngan import Discriminator, Generator, losses, update  # noqa: E402


def read_idx(name, header):
    with gzip.open(next(FASHION.glob(name + "*"))) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=header)


def batches(images, labels, size):
    """Every image once an epoch, the last batch of it with what is left, as data/image_batches.hpp."""
    while True:
        order = torch.randperm(len(images))
        for first in range(0, len(images), size):
            rows = order[first : first + size]
            yield images[rows].float() / 127.5 - 1, labels[rows].long()


def with_torch(o, seed):
    """Trains and returns (scores, seconds of training)."""
    torch.manual_seed(seed)
    torch.set_num_threads(o["threads"])
    images = torch.from_numpy(read_idx("train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28).copy())
    labels = torch.from_numpy(read_idx("train-labels-idx1-ubyte", 8).copy())
    classes = 10 if o["conditional"] else 0
    generator = Generator(28, 1, o["noise_size"], o["width"], classes).to(memory_format=torch.channels_last)
    discriminator = Discriminator(28, 1, o["discriminator_width"], classes).to(memory_format=torch.channels_last)
    average = copy.deepcopy(generator)
    total = {discriminator: o["steps"], generator: o["steps"] // o["n_dis"]}  # updates
    optimizers, schedules = {}, {}
    for network in (discriminator, generator):
        optimizers[network] = torch.optim.Adam(network.parameters(), lr=o["learning_rate"], betas=(0.0, 0.9))
        factor = {"linear": lambda t, n=total[network]: max(1 - t / n, 0), "constant": lambda t: 1}[o["schedule"]]
        schedules[network] = torch.optim.lr_scheduler.LambdaLR(optimizers[network], factor)
    begun = time.monotonic()
    for step, (image, label) in zip(range(o["steps"]), batches(images, labels, o["batch_size"])):
        label = label if classes else None
        image = image.contiguous(memory_format=torch.channels_last)
        loss_d, loss_g = losses(generator, discriminator, image, torch.randn(len(image), o["noise_size"]), label)
        moves = (step + 1) % o["n_dis"] == 0
        update(loss_d, loss_g if moves else None, discriminator, generator, optimizers[discriminator], optimizers[generator])
        schedules[discriminator].step()
        if moves:
            schedules[generator].step()
            with torch.no_grad():
                for mean, new in zip(average.parameters(), generator.parameters()):
                    mean.lerp_(new, 1 - o["ema_decay"])
    seconds = time.monotonic() - begun
    average.load_state_dict(generator.state_dict() | dict(average.named_parameters()))  # batch norm's running statistics
    average.eval()
    with torch.no_grad():
        made = [average(torch.randn(500, o["noise_size"]), torch.arange(500) % classes if classes else None)
                for _ in range(o["evaluation_images"] // 500)]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "images.safetensors")
        save_safetensors({"images": torch.cat(made).permute(0, 2, 3, 1).contiguous()}, file)
        judged = subprocess.run([BIN / "judge_images", o["config"], file], capture_output=True, text=True, check=True)
    return json.loads(judged.stdout), seconds


def with_troupe(o, seed):
    return train(o["config"], GROUP, {"steps": o["steps"]}, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "apps" / "configs" / "sngan_fashion.toml"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="instead of the configuration's")
    parser.add_argument("--only", choices=["troupe", "torch"])
    arguments = parser.parse_args()
    o = {"threads": 1, "ema_decay": 0, "evaluation_images": 10000, "noise_size": 64, "n_dis": 1, "schedule": "constant",
         "conditional": False} | tomllib.loads(pathlib.Path(arguments.config).read_text())["replicas"][GROUP]
    if o.get("network") != "resnet" or o.get("data", "fashion_mnist") != "fashion_mnist":
        parser.error("the configuration must train network \"resnet\" on data \"fashion_mnist\"")
    o |= {"config": arguments.config} | ({"steps": arguments.steps} if arguments.steps else {})
    sides = {"troupe": with_troupe, "torch": with_torch}
    results = {}
    for seed in arguments.seeds:
        for side in [arguments.only] if arguments.only else sides:
            scores, seconds = sides[side](o, seed)
            results.setdefault(side, []).append((scores, seconds))
            print(f"# {side}, seed {seed}: {scores}, {seconds:.0f} s", file=sys.stderr, flush=True)
    print(table(f"{o['steps']} steps", results))


if __name__ == "__main__":
    main()
