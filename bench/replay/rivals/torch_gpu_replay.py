#!/usr/bin/env python3
"""Prioritised replay in a GPU's memory, written in PyTorch: rival of bench/replay/replay_gpu_bench.cpp.

torchrl keeps its sums on the host, so this is what a user gets who stays on the GPU: priorities in rows of a thousand with
the rows' sums beside them. A draw is a running sum over the rows' sums, a search in it, and the same within the rows that
were found; new priorities add up their rows again. Batches and importance weights are those of Troupe's side.
"""
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)]
import gpu_rows
import gpu_sizes as sizes
import torch
import torch_forms


class Replay:
    def __init__(self):
        side = int(sizes.ITEMS**0.5)
        assert side * side == sizes.ITEMS
        self.side = side
        self.columns = [torch.randn(sizes.ITEMS, width) for width in sizes.COLUMNS.values()]
        self.batch = [torch.empty(sizes.BATCH, width) for width in sizes.COLUMNS.values()]
        self.mass = torch.rand(side, side) ** sizes.PRIORITY_EXPONENT
        self.sums = self.mass.sum(1)
        self.new = torch.rand(sizes.BATCH)
        self.weights = torch.empty(sizes.BATCH)

    def draw(self):
        """Fills batch and weights; returns the items."""
        running = self.sums.cumsum(0)
        total = running[-1]
        at = torch.rand(sizes.BATCH, device=running.device) * total
        row = torch.searchsorted(running, at, right=True).clamp_(max=self.side - 1)
        within = self.mass[row]
        at = at - (running[row] - self.sums[row])
        column = torch.searchsorted(within.cumsum(1), at[:, None], right=True).clamp_(max=self.side - 1)
        item = row * self.side + column[:, 0]
        for whole, part in zip(self.columns, self.batch):
            torch.index_select(whole, 0, item, out=part)
        probability = within.gather(1, column)[:, 0] / total
        weights = (sizes.ITEMS * probability) ** -sizes.IMPORTANCE_EXPONENT
        torch.div(weights, weights.max(), out=self.weights)
        return item

    def update(self, item, priorities):
        self.mass.view(-1).index_copy_(0, item, priorities**sizes.PRIORITY_EXPONENT)
        row = item // self.side
        self.sums.index_copy_(0, row, self.mass[row].sum(1))

    def step(self):
        self.update(self.draw(), self.new)


def main():
    replay = None

    def make(compiler):
        nonlocal replay
        torch.manual_seed(1)
        with torch_forms.DEVICE:
            replay = Replay()
        return compiler(replay.step)

    def measure(call):
        value = gpu_rows.rate(call, sizes.BATCH * sizes.BATCHES, torch_forms.wait)
        torch.testing.assert_close(replay.sums, replay.mass.sum(1), rtol=1e-3, atol=1e-3)
        assert 0 < replay.weights.min() and replay.weights.max() == 1
        return value

    value, version = torch_forms.fastest(make, [()] * sizes.BATCHES, measure)
    gpu_rows.report("gpu_sample_prioritized_256", value, "items/s", version)


if __name__ == "__main__":
    main()
