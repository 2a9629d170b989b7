#!/usr/bin/env python3
"""cpprb's buffers, a million transitions, filled: rival of bench/replay/table_bench.cpp, same transitions and batches.

cpprb marks its tree in update_priorities and repairs it in the next sample, so the two are timed together.
"""
import importlib.metadata
import json
import time

import numpy as np
from cpprb import PrioritizedReplayBuffer, ReplayBuffer

OBS, ACT, BATCH, CAPACITY, ROWS, SECONDS = 17, 6, 256, 1_000_000, 1000, 3.0

COLUMNS = {"observation": OBS, "action": ACT, "reward": 1, "discount": 1, "next_observation": OBS}


def rows(count):
    random = np.random.default_rng(1)
    return {name: random.normal(size=(count, size)).astype(np.float32) for name, size in COLUMNS.items()}


def rate(call, items):
    """Items per second of `call`, which handles `items` at once."""
    for _ in range(10):
        call()
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(10):
            call()
        calls += 10
    return items * calls / (time.perf_counter() - start)


def report(name, value):
    row = {"name": name, "value": value, "unit": "items/s", "version": importlib.metadata.version("cpprb")}
    print(json.dumps(row), flush=True)


def main():
    columns = {name: {"shape": size, "dtype": np.float32} for name, size in COLUMNS.items()}
    uniform = ReplayBuffer(CAPACITY, columns)
    prioritized = PrioritizedReplayBuffer(CAPACITY, columns, alpha=0.6)
    batch, one = rows(ROWS), {name: values[0] for name, values in rows(1).items()}
    priorities = np.random.default_rng(2).uniform(size=ROWS).astype(np.float32)
    for _ in range(CAPACITY // ROWS):
        uniform.add(**batch)
        prioritized.add(**batch, priorities=priorities)
    assert uniform.get_stored_size() == prioritized.get_stored_size() == CAPACITY

    def sample_and_update():
        got = prioritized.sample(BATCH, beta=0.4)
        prioritized.update_priorities(got["indexes"], priorities[:BATCH])

    report("insert_1step", rate(lambda: uniform.add(**one), 1))
    report("insert_batch", rate(lambda: uniform.add(**batch), ROWS))
    report("sample_uniform_256", rate(lambda: uniform.sample(BATCH), BATCH))
    report("sample_prioritized_256", rate(sample_and_update, BATCH))


if __name__ == "__main__":
    main()
