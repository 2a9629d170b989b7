"""The rows of the learner bench whose batches come from prioritised replay on the host, for both rivals.

Replay is cpprb's, a million transitions. While the GPU takes a launch the batches of the next are drawn, so priorities
come a launch late, as in Troupe's learner. A launch is one step or as many as Troupe's; the faster one is reported.
"""
import time

import numpy as np
from cpprb import PrioritizedReplayBuffer

import gpu_rows
import gpu_sizes as sizes

COLUMNS = {"observation": sizes.OBSERVATION, "action": sizes.ACTIONS, "reward": 1, "discount": 1,
           "next_observation": sizes.OBSERVATION}
WIDTHS = [*COLUMNS.values(), 1]  # and the rows' importance weights


def fill():
    columns = {name: {"shape": size, "dtype": np.float32} for name, size in COLUMNS.items()}
    replay, random = PrioritizedReplayBuffer(sizes.ITEMS, columns, alpha=sizes.PRIORITY_EXPONENT), np.random.default_rng(1)
    rows = {name: random.uniform(-1, 1, size=(1000, size)).astype(np.float32) for name, size in COLUMNS.items()}
    for _ in range(sizes.ITEMS // 1000):
        replay.add(**rows, priorities=random.uniform(size=1000))
    assert replay.get_stored_size() == sizes.ITEMS
    return replay


def rate(replay, launch, begin, finish):
    """Steps a second, so many of them a launch. begin(columns) starts a launch on arrays [launch * batch, width] and does
    not wait; finish() gives the rows' cross-entropies."""
    draw = lambda: replay.sample(launch * sizes.BATCH, beta=sizes.IMPORTANCE_EXPONENT)
    following, launches, start = draw(), 0, 0.0
    while launches < 6 or time.perf_counter() - start < gpu_rows.SECONDS:
        if launches == 4:
            start = time.perf_counter()  # the first ones warm up
        rows = following
        begin([rows[name] for name in COLUMNS] + [rows["weights"][:, None]])
        following = draw()
        replay.update_priorities(rows["indexes"], finish())
        launches += 1
    return launch * (launches - 4) / (time.perf_counter() - start)
