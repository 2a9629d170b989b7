#!/usr/bin/env python3
"""Reverb's Python client on a server in another process of this host: rival of bench/python/replay_client.py, same transitions
and batches. Its fastest interface to draw is TrajectoryDataset, which fetches ahead; priorities go by one mutate_priorities call
a batch. Nothing is encrypted."""
import importlib.metadata
import json
import os
import subprocess
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import reverb
import tensorflow as tf

OBS, ACT, BATCH, ITEMS, SECONDS = 17, 6, 256, 1000, 4.0
SIGNATURE = {
    "observation": tf.TensorSpec([1, OBS], tf.float32),
    "action": tf.TensorSpec([1, ACT], tf.float32),
    "reward": tf.TensorSpec([1], tf.float32),
    "discount": tf.TensorSpec([1], tf.float32),
    "next_observation": tf.TensorSpec([1, OBS], tf.float32),
}


def serve():
    tables = [reverb.Table(name=name, sampler=sampler, remover=reverb.selectors.Fifo(), max_size=1_000_000,
                           rate_limiter=reverb.rate_limiters.MinSize(1), signature=SIGNATURE)
              for name, sampler in (("uniform", reverb.selectors.Uniform()), ("prioritized", reverb.selectors.Prioritized(0.6)))]
    print(reverb.Server(tables).port, flush=True)
    sys.stdin.read()  # until the client ends


def fill(client, name):
    random = np.random.default_rng(1)
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        for i in range(ITEMS):
            writer.append({key: random.normal(size=spec.shape[1:]).astype(np.float32) for key, spec in SIGNATURE.items()})
            writer.create_item(name, priority=1.0, trajectory={key: column[-1:] for key, column in writer.history.items()})
            if i % 50 == 49:
                writer.flush()


def sample(client, address, name, update):
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
    return count / (time.perf_counter() - start)


def main():
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    address = f"localhost:{server.stdout.readline().strip()}"
    client = reverb.Client(address)
    for name, row in (("uniform", "client_sample_256"), ("prioritized", "client_prioritized_256")):
        fill(client, name)
        value = sample(client, address, name, name == "prioritized")
        print(json.dumps({"name": row, "value": value, "unit": "items/s", "version": importlib.metadata.version("dm-reverb")}), flush=True)
    server.stdin.close()
    server.wait(30)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
