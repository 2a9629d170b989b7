#!/usr/bin/env python3
"""`troupe.Table` from Python, by the wheel that python/build_wheel.sh makes: the rows of bench/replay/table_bench.cpp. A full
table of a million one-step transitions, one thread; sample_prioritized_256 sets new priorities for each batch."""
from wheel_rows import main, per_second, report

ITEMS, INSERT_ROWS, BATCH, SECONDS = 1_000_000, 1000, 256, 2
COLUMNS = {"observation": ("float32", (17,)), "action": ("float32", (6,)), "reward": "float32", "discount": "float32",
           "next_observation": ("float32", (17,))}


def measure():
    import numpy as np

    import troupe

    rng = np.random.default_rng(1)
    shapes = {name: (INSERT_ROWS, *(spec[1] if isinstance(spec, tuple) else ())) for name, spec in COLUMNS.items()}
    rows = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    one = {name: column[:1] for name, column in rows.items()}
    priorities = rng.uniform(size=BATCH)

    def row(name, call, items, calls_between_clocks):
        report(name, per_second(call, items, calls_between_clocks, SECONDS), "items/s")

    for sampler in ("uniform", "prioritized"):
        table = troupe.Table(COLUMNS, ITEMS, sampler=sampler, priority_exponent=0.6)
        while len(table) < ITEMS:
            table.insert(rows, rng.uniform(size=INSERT_ROWS))
        if sampler == "uniform":
            row("insert_1step", lambda: table.insert(one), 1, 500)
            row("insert_batch", lambda: table.insert(rows), INSERT_ROWS, 10)
            row("sample_uniform_256", lambda: table.sample(BATCH), BATCH, 50)
        else:
            row("sample_prioritized_256", lambda: table.update_priorities(table.sample(BATCH).keys, priorities), BATCH, 50)


if __name__ == "__main__":
    main(measure, __file__)
