#!/usr/bin/env python3
"""D4PG on a GPU in PyTorch with cpprb's prioritised replay on the host: rival of bench/learner/learner_gpu_bench.cpp.

A launch's batches go over in one copy from pinned memory, and their priorities come back in another.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import torch_gpu_steps as steps
import numpy as np
import torch
import torch_d4pg
from torch_forms import DEVICE, ON_GPU, allow_tf32, fastest, wait

sizes, gpu_rows = steps.sizes, steps.gpu_rows
import host_replay


class Columns:
    """The batches of a launch in one piece of memory, column by column, and views of it."""

    def __init__(self, launch, **where):
        rows = launch * sizes.BATCH
        self.all = torch.zeros(rows * sum(host_replay.WIDTHS), **where)
        parts = self.all.split([rows * width for width in host_replay.WIDTHS])
        self.views = [part.view(rows, width) for part, width in zip(parts, host_replay.WIDTHS)]
        # Rewards, discounts and weights have no second dimension in the learner.
        columns = [view if width > 1 else view[:, 0] for view, width in zip(self.views, host_replay.WIDTHS)]
        self.batches = list(zip(*(column.split(sizes.BATCH) for column in columns)))


def steps_per_second(replay, launch):
    """(value, version) with so many steps a launch."""
    there, here = Columns(launch, device=DEVICE), Columns(launch, pin_memory=ON_GPU)
    arrays = [view.numpy() for view in here.views]
    td_error = torch.zeros(launch, sizes.BATCH, device=DEVICE)
    td_here = torch.zeros(launch * sizes.BATCH, pin_memory=ON_GPU)
    learner = None

    def make(compiler):
        nonlocal learner
        torch.manual_seed(1)
        with DEVICE:
            learner = torch_d4pg.Learner(steps.options(sizes.OBSERVATION))
        update = learner.compile(compiler)
        return lambda batch, errors: errors.copy_(update(batch))

    def measure(steps_of_launch):
        def begin(columns):
            for array, column in zip(arrays, columns):
                np.copyto(array, column)
            there.all.copy_(here.all, non_blocking=True)
            steps_of_launch()
            td_here.copy_(td_error.view(-1), non_blocking=True)
            learner.count(launch)

        def finish():
            wait()
            return td_here.numpy()

        value = host_replay.rate(replay, launch, begin, finish)
        assert np.isfinite(td_here.numpy()).all()
        return value

    return fastest(make, list(zip(there.batches, td_error)), measure)


def main():
    replay = host_replay.fill()
    for tf32 in (False, True):
        allow_tf32(tf32)
        value, version = max(steps_per_second(replay, launch) for launch in sizes.LAUNCHES)
        gpu_rows.report("d4pg_host_replay" + "_tf32" * tf32, value, "steps/s", version)


if __name__ == "__main__":
    main()
