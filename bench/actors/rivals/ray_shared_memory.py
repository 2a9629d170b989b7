#!/usr/bin/env python3
"""Ray actors on one machine: rival of bench/actors/shared_memory_bench.cpp, from actor to actor.

Ray runs every actor in a process of its own; large values pass through its object store in shared memory (up to 100 KiB
they travel in the call). A frame is as on the other side: a new value at both ends of an array that is there already,
copied into the store, a word of each cache line read and summed in the other process, the sum back.
"""
import collections
import json
import os
import time

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray

FRAME_SECONDS, WARM_UP, UNDER_WAY, WORDS_OF_LINE = 2.0, 16, 4, 8
ROWS = {"frame_64_kib": 64 << 10, "frame_1_mib": 1 << 20, "frame_16_mib": 16 << 20, "frame_64_mib": 64 << 20}


@ray.remote
class Consumer:
    def sum(self, frame):
        return int(frame[::WORDS_OF_LINE].sum())


@ray.remote
class Producer:
    def rate(self, consumer, frame_bytes):
        """Frames per second."""
        frame = np.zeros(frame_bytes // 8, np.uint64)
        frame[-WORDS_OF_LINE] = 1
        under_way, sent, done = collections.deque(), 0, 0
        start = None
        while start is None or time.perf_counter() - start < FRAME_SECONDS:
            while len(under_way) < UNDER_WAY:
                frame[0] = sent
                under_way.append(consumer.sum.remote(frame))  # copies the frame into the object store
                sent += 1
            assert ray.get(under_way.popleft()) == done + 1
            done += 1
            if done == WARM_UP:
                start = time.perf_counter()
        return (done - WARM_UP) / (time.perf_counter() - start)


def main():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    producer, consumer = Producer.remote(), Consumer.remote()
    for name, frame_bytes in ROWS.items():
        rate = ray.get(producer.rate.remote(consumer, frame_bytes))
        print(json.dumps({"name": name, "value": rate, "unit": "frames/s", "version": ray.__version__}), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
