#!/usr/bin/env python3
"""Reverb with its server in this process: rival of bench/replay/table_bench.cpp, same transitions and batches.

Its fastest interfaces: one TrajectoryWriter that confirms every 50 inserts (it has no batch insert, so that is both
insert rows), TrajectoryDataset for samples, one mutate_priorities call a batch. Its tables hold 20,000 items instead of
a million, which is as many as can be inserted in the time of a repeat; smaller tables do not slow it down.
"""
import importlib.metadata
import json
import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import reverb
import tensorflow as tf

OBS, ACT, BATCH, ITEMS, FLUSH, SECONDS = 17, 6, 256, 20_000, 50, 4.0

SIGNATURE = {
    "observation": tf.TensorSpec([1, OBS], tf.float32),
    "action": tf.TensorSpec([1, ACT], tf.float32),
    "reward": tf.TensorSpec([1], tf.float32),
    "discount": tf.TensorSpec([1], tf.float32),
    "next_observation": tf.TensorSpec([1, OBS], tf.float32),
}


def table(name, sampler):
    return reverb.Table(
        name=name,
        sampler=sampler,
        remover=reverb.selectors.Fifo(),
        max_size=1_000_000,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=SIGNATURE,
    )


def tables():
    return [table("uniform", reverb.selectors.Uniform()), table("prioritized", reverb.selectors.Prioritized(0.6))]


def insert(client, name, items):
    """Inserts per second; everything is confirmed before the clock stops."""
    random = np.random.default_rng(1)
    step = {key: random.normal(size=spec.shape[1:]).astype(np.float32) for key, spec in SIGNATURE.items()}
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        start = time.perf_counter()
        for i in range(items):
            writer.append(step)
            trajectory = {key: column[-1:] for key, column in writer.history.items()}
            writer.create_item(name, priority=1.0, trajectory=trajectory)
            if i % FLUSH == FLUSH - 1:
                writer.flush()
        return items / (time.perf_counter() - start)


def sample(client, address, name, update):
    """Items per second; with `update`, every batch gets new priorities."""
    dataset = reverb.TrajectoryDataset.from_table_signature(
        server_address=address, table=name, max_in_flight_samples_per_worker=2 * BATCH
    ).batch(BATCH)
    batches = iter(dataset)
    priorities = np.random.default_rng(2).uniform(size=BATCH)
    for _ in range(5):
        next(batches)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        got = next(batches)
        if update:
            keys = got.info.key.numpy().reshape(BATCH, -1)[:, 0]
            client.mutate_priorities(name, updates=dict(zip(keys.tolist(), priorities.tolist())))
        count += BATCH
    assert got.data["observation"].shape == (BATCH, 1, OBS)
    return count / (time.perf_counter() - start)


def report(name, value):
    row = {"name": name, "value": value, "unit": "items/s", "version": importlib.metadata.version("dm-reverb")}
    print(json.dumps(row), flush=True)


def main():
    server = reverb.Server(tables=tables())
    address = f"localhost:{server.port}"
    client = reverb.Client(address)
    rate = insert(client, "uniform", ITEMS)
    report("insert_1step", rate)
    report("insert_batch", rate)
    insert(client, "prioritized", ITEMS)
    report("sample_uniform_256", sample(client, address, "uniform", update=False))
    report("sample_prioritized_256", sample(client, address, "prioritized", update=True))
    server.stop()


if __name__ == "__main__":
    main()
