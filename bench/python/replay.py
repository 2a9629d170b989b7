#!/usr/bin/env python3
"""`troupe.Table` from Python, by the wheel that python/build_wheel.sh makes: the rows of bench/replay/table_bench.cpp. A full
table of a million one-step transitions, one thread; sample_prioritized_256 sets new priorities for each batch."""
import importlib.metadata
import json
import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ITEMS, INSERT_ROWS, BATCH, SECONDS = 1_000_000, 1000, 256, 2
COLUMNS = {"observation": ("float32", (17,)), "action": ("float32", (6,)), "reward": "float32", "discount": "float32",
           "next_observation": ("float32", (17,))}


def items_per_second(call, items, calls_between_clocks):
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        for _ in range(calls_between_clocks):
            call()
        calls += calls_between_clocks
    return items * calls / (time.perf_counter() - start)


def measure():
    import numpy as np

    import troupe

    rng = np.random.default_rng(1)
    shapes = {name: (INSERT_ROWS, *(spec[1] if isinstance(spec, tuple) else ())) for name, spec in COLUMNS.items()}
    rows = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    one = {name: column[:1] for name, column in rows.items()}
    priorities = rng.uniform(size=BATCH)

    def report(name, value):
        row = {"name": name, "value": value, "unit": "items/s", "version": importlib.metadata.version("troupe")}
        print(json.dumps(row), flush=True)

    for sampler in ("uniform", "prioritized"):
        table = troupe.Table(COLUMNS, ITEMS, sampler=sampler, priority_exponent=0.6)
        while len(table) < ITEMS:
            table.insert(rows, rng.uniform(size=INSERT_ROWS))
        if sampler == "uniform":
            report("insert_1step", items_per_second(lambda: table.insert(one), 1, 500))
            report("insert_batch", items_per_second(lambda: table.insert(rows), INSERT_ROWS, 10))
            report("sample_uniform_256", items_per_second(lambda: table.sample(BATCH), BATCH, 50))
        else:
            report("sample_prioritized_256",
                   items_per_second(lambda: table.update_priorities(table.sample(BATCH).keys, priorities), BATCH, 50))


if __name__ == "__main__":
    if "TROUPE_SITE" in os.environ:
        measure()
    else:
        subprocess.run([ROOT / "python/with_wheel.sh", __file__], check=True)
