"""Random sequences of operations on a table of Troupe's and on one of a live Reverb server: both admit the same, give the
same items in the same order, and let the same ones go. Takes a Python that has dm-reverb:

    python/with_wheel.sh --env reverb tests/python/beside_reverb.py [SEED]
"""
import importlib.metadata
import itertools
import os
import random
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import reverb

import troupe

SELECTORS = {
    "fifo": reverb.selectors.Fifo,
    "lifo": reverb.selectors.Lifo,
    "max_heap": reverb.selectors.MaxHeap,
    "min_heap": reverb.selectors.MinHeap,
}
LIMITERS = {
    "min size 3": (troupe.RateLimiter.min_size(3), reverb.rate_limiters.MinSize(3)),
    "queue of 5": (troupe.RateLimiter.queue(5), reverb.rate_limiters.Queue(5)),
    "ratio 1.5": (troupe.RateLimiter.sample_to_insert_ratio(1.5, 2, 3.0), reverb.rate_limiters.SampleToInsertRatio(1.5, 2, 3.0)),
}
MAX_ITEMS, OPERATIONS = 6, 120


class Both:
    def __init__(self, sampler, remover, times, limiter):
        ours, theirs = LIMITERS[limiter]
        self.ours = troupe.Table({"x": "int64"}, MAX_ITEMS, sampler=sampler, remover=remover, max_times_sampled=times, limiter=ours)
        self.table = reverb.Table("t", SELECTORS[sampler](), SELECTORS[remover](), MAX_ITEMS, theirs, times)
        self.server = reverb.Server([self.table])
        self.client = reverb.Client(f"localhost:{self.server.port}")
        self.their_key, self.next = {}, 0  # by value, which is our key

    def same(self, what, ours, theirs):
        assert ours == theirs, f"{what}: Troupe {ours}, Reverb {theirs}"

    def insert(self, priority):
        admitted = self.ours.can_insert()
        self.same("can_insert", admitted, self.table.can_insert(1))
        if not admitted:
            return
        self.ours.insert({"x": [self.next]}, [priority])
        self.client.insert([np.int64(self.next)], {"t": priority})
        self.next += 1

    def sample(self):
        admitted = self.ours.can_sample()
        self.same("can_sample", admitted, self.table.can_sample(1))
        if not admitted:
            return
        ours = self.ours.sample(1)
        ((theirs,),) = self.client.sample("t", 1)
        value = int(theirs.data[0])
        self.same("sampled", int(ours.data["x"][0]), value)
        self.same("its priority", float(ours.priorities[0]), theirs.info.priority)
        self.same("its times sampled", int(ours.times_sampled[0]), theirs.info.times_sampled)
        self.same("table size", ours.table_size, theirs.info.table_size)
        self.their_key[value] = theirs.info.key

    def update(self, rng):
        """Of an item whose key Reverb has told."""
        if not self.their_key:
            return
        value, priority = rng.choice(list(self.their_key)), float(rng.randrange(4))
        self.ours.update_priorities([value], [priority])
        self.client.mutate_priorities("t", {self.their_key[value]: priority})

    def check(self):
        info = self.table.info
        self.same("items", len(self.ours), info.current_size)
        mine = self.ours.info
        self.same("inserts", mine["inserts"], info.rate_limiter_info.insert_stats.completed)
        self.same("samples", mine["samples"], info.rate_limiter_info.sample_stats.completed)

    def close(self):
        self.server.stop()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    sequences = 0
    for kind in itertools.product(SELECTORS, SELECTORS, (0, 1, 3), LIMITERS):
        rng = random.Random(f"{seed} {kind}")
        both, done = Both(*kind), []
        try:
            for _ in range(OPERATIONS):
                operation = rng.choices(("insert", "sample", "update"), (5, 4, 2))[0]
                done.append(operation)
                if operation == "insert":
                    both.insert(float(rng.randrange(4)))
                elif operation == "sample":
                    both.sample()
                else:
                    both.update(rng)
                both.check()
        except AssertionError as wrong:
            sys.exit(f"sampler {kind[0]}, remover {kind[1]}, max_times_sampled {kind[2]}, limiter {kind[3]}, seed {seed}, operation {len(done)} ({done[-1]}): {wrong}")
        finally:
            both.close()
        sequences += 1
    version = importlib.metadata.version("dm-reverb")
    print(f"{sequences} sequences of {OPERATIONS} operations: all as Reverb {version} does")


if __name__ == "__main__":
    main()
