#!/usr/bin/env python3
"""Reverb with its server in a process of its own, gRPC on loopback: rival of bench/actors/replay_nodes_bench.cpp.

Its fastest interfaces: one TrajectoryWriter that confirms every 50 inserts, TrajectoryDataset for samples. Items are the
same: a transition, or one step with an observation of 84 x 84 x 9 bytes, of noise or smooth (its chunks are compressed).
"""
import importlib.metadata
import json
import multiprocessing
import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np

OBS, ACT, BATCH, FLUSH, SECONDS, PATTERNS = 17, 6, 256, 50, 3.0, 64
STATE_ITEMS, PIXEL_ITEMS = 20_000, 8_000
STATE = {
    "observation": ((OBS,), np.float32),
    "action": ((ACT,), np.float32),
    "reward": ((), np.float32),
    "discount": ((), np.float32),
    "next_observation": ((OBS,), np.float32),
}
PIXELS = {
    "pixels": ((84, 84, 9), np.uint8),
    "action": ((ACT,), np.float32),
    "reward": ((), np.float32),
    "discount": ((), np.float32),
}
TABLES = {"state": (STATE, STATE_ITEMS), "pixels_noise": (PIXELS, PIXEL_ITEMS), "pixels_smooth": (PIXELS, PIXEL_ITEMS)}


def serve(ports):
    import reverb
    import tensorflow as tf

    tables = [
        reverb.Table(
            name=name,
            sampler=reverb.selectors.Uniform(),
            remover=reverb.selectors.Fifo(),
            max_size=1_000_000,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature={key: tf.TensorSpec([1, *shape], dtype) for key, (shape, dtype) in columns.items()},
        )
        for name, (columns, _) in TABLES.items()
    ]
    server = reverb.Server(tables=tables)
    ports.put(server.port)
    server.wait()


def patterns(name, columns):
    """Steps of changing content."""
    random = np.random.default_rng(1)
    steps = []
    for _ in range(PATTERNS):
        step = {}
        for key, (shape, dtype) in columns.items():
            if dtype != np.uint8:
                step[key] = random.normal(size=shape).astype(dtype)
            elif name == "pixels_noise":
                step[key] = random.integers(0, 256, shape, dtype)
            else:
                step[key] = (np.arange(np.prod(shape)) // 251).astype(dtype).reshape(shape)
        steps.append(step)
    return steps


def insert(client, name, columns, items):
    """Inserts per second; everything is confirmed before the clock stops."""
    steps = patterns(name, columns)
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        start = time.perf_counter()
        for i in range(items):
            writer.append(steps[i % PATTERNS])
            trajectory = {key: column[-1:] for key, column in writer.history.items()}
            writer.create_item(name, priority=1.0, trajectory=trajectory)
            if i % FLUSH == FLUSH - 1:
                writer.flush()
        writer.flush()
        return items / (time.perf_counter() - start)


def sample(address, name, columns):
    """Items per second, of batches whose memory is touched."""
    import reverb

    dataset = reverb.TrajectoryDataset.from_table_signature(
        server_address=address, table=name, max_in_flight_samples_per_worker=2 * BATCH
    ).batch(BATCH)
    batches = iter(dataset)
    for _ in range(5):
        next(batches)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        got = next(batches)
        largest = got.data["pixels" if "pixels" in columns else "observation"].numpy()
        assert largest.shape == (BATCH, 1, *columns["pixels" if "pixels" in columns else "observation"][0])
        largest.reshape(-1)[::64].sum()
        count += BATCH
    return count / (time.perf_counter() - start)


def report(name, value):
    row = {"name": name, "value": value, "unit": "items/s", "version": importlib.metadata.version("dm-reverb")}
    print(json.dumps(row), flush=True)


def main():
    processes = multiprocessing.get_context("spawn")
    ports = processes.Queue()
    server = processes.Process(target=serve, args=(ports,), daemon=True)
    server.start()
    import reverb

    address = f"localhost:{ports.get(timeout=60)}"
    client = reverb.Client(address)
    for name, (columns, items) in TABLES.items():
        report(f"insert_{name}", insert(client, name, columns, items))
        report(f"sample_{name}", sample(address, name, columns))
        client.reset(name)
    server.kill()


if __name__ == "__main__":
    main()
