#!/usr/bin/env python3
"""torchrl's prioritised replay with its transitions in a GPU's memory: rival of bench/replay/replay_gpu_bench.cpp."""
import importlib.metadata
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[i]) for i in (1, 2)]
import gpu_rows
import gpu_sizes as sizes
import torch
import torch_forms
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

ROWS = 1024


def main():
    device = torch_forms.DEVICE
    replay = TensorDictPrioritizedReplayBuffer(
        alpha=sizes.PRIORITY_EXPONENT,
        beta=sizes.IMPORTANCE_EXPONENT,
        storage=LazyTensorStorage(sizes.ITEMS, device=device),
        batch_size=sizes.BATCH,
        priority_key="td_error",
    )
    columns = {name: torch.randn(ROWS, width, device=device) for name, width in sizes.COLUMNS.items()}
    rows = TensorDict(columns | {"td_error": torch.rand(ROWS, device=device)}, [ROWS], device=device)
    for _ in range(sizes.ITEMS // ROWS):
        replay.extend(rows)
    assert len(replay) == sizes.ITEMS
    new = torch.rand(sizes.BATCH, device=device)

    def step():
        batch = replay.sample()
        batch["td_error"] = new
        replay.update_tensordict_priority(batch)

    value = gpu_rows.rate(torch_forms.in_a_loop(step, [()] * sizes.BATCHES), sizes.BATCH * sizes.BATCHES, torch_forms.wait, 1)
    batch = replay.sample()
    assert batch["observation"].shape == (sizes.BATCH, 17) and batch["observation"].device.type == device.type
    gpu_rows.report("gpu_sample_prioritized_256", value, "items/s", importlib.metadata.version("torchrl"))


if __name__ == "__main__":
    main()
