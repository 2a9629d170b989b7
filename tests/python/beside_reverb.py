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
# Reverb's are made anew for each table: one that two tables have ends the process.
LIMITERS = {
    "min size 3": (troupe.RateLimiter.min_size(3), lambda: reverb.rate_limiters.MinSize(3)),
    "queue of 5": (troupe.RateLimiter.queue(5), lambda: reverb.rate_limiters.Queue(5)),
    "ratio 1.5": (troupe.RateLimiter.sample_to_insert_ratio(1.5, 2, 3.0), lambda: reverb.rate_limiters.SampleToInsertRatio(1.5, 2, 3.0)),
}
MAX_ITEMS, OPERATIONS = 6, 120


class Both:
    def __init__(self, sampler, remover, times, limiter):
        ours, theirs = LIMITERS[limiter]
        self.ours = troupe.Table({"x": "int64"}, MAX_ITEMS, sampler=sampler, remover=remover, max_times_sampled=times, limiter=ours)
        self.table = reverb.Table("t", SELECTORS[sampler](), SELECTORS[remover](), MAX_ITEMS, theirs(), times)
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

    def delete(self, rng):
        if not self.their_key:
            return
        value = rng.choice(list(self.their_key))
        self.ours.delete([value])
        self.client.mutate_priorities("t", deletes=[self.their_key.pop(value)])

    def reset(self):
        self.ours.reset()
        self.client.reset("t")
        self.their_key.clear()

    def check(self):
        info = self.table.info
        self.same("items", len(self.ours), info.current_size)
        mine = self.ours.info
        self.same("inserts", mine["inserts"], info.rate_limiter_info.insert_stats.completed)
        self.same("samples", mine["samples"], info.rate_limiter_info.sample_stats.completed)

    def close(self):
        self.server.stop()


class BothSequences:
    """Two tables over shared steps beside two of a server with a TrajectoryWriter."""

    REACH = 5
    PATTERNS = {"a": None, "b": {"x": ("x", slice(0, -1)), "y": ("y", -1), "next": ("x", slice(1, None)), "two": ("y", slice(-2, None))}}
    LEAST = {"a": 1, "b": 2}  # steps of an item

    def __init__(self, kinds):
        self.tables = {}
        specs = {}
        for name, (sampler, remover, times, limiter) in zip("ab", kinds):
            ours, theirs = LIMITERS[limiter]
            specs[name] = troupe.TableSpec(MAX_ITEMS, sampler=sampler, remover=remover, max_times_sampled=times, limiter=ours, pattern=self.PATTERNS[name])
            self.tables[name] = reverb.Table(name, SELECTORS[sampler](), SELECTORS[remover](), MAX_ITEMS, theirs(), times)
        self.ours = troupe.SequenceReplay({"x": "int64", "y": ("float32", (2,))}, specs, chunk_steps=2)
        self.server = reverb.Server(list(self.tables.values()))
        self.client = reverb.Client(f"localhost:{self.server.port}")
        self.writer = self.ours.writer(max_steps=self.REACH)
        self.their_writer = self.client.trajectory_writer(num_keep_alive_refs=self.REACH)
        self.next, self.episode = 0, 0
        self.keys = {name: {} for name in self.tables}  # ours -> theirs

    same = Both.same

    def append(self, rng):
        step = {"x": np.int64(self.next), "y": np.full(2, self.next, np.float32)}
        self.writer.append(step)
        self.their_writer.append(step)
        self.next, self.episode = self.next + 1, self.episode + 1

    def item(self, rng):
        name = rng.choice("ab")
        admitted = self.ours.can_insert(name)
        self.same("can_insert", admitted, self.tables[name].can_insert(1))
        if not admitted or self.episode < self.LEAST[name]:
            return
        steps, priority = rng.randint(self.LEAST[name], min(self.REACH, self.episode)), float(rng.randrange(4))
        self.writer.create_item(name, steps, priority)
        x, y = self.their_writer.history["x"], self.their_writer.history["y"]
        trajectory = {"x": x[-steps:], "y": y[-steps:]}
        if name == "b":
            trajectory = {"x": x[-steps:-1], "y": y[-1], "next": x[1 - steps:], "two": y[-2:]}
        self.their_writer.create_item(name, priority, trajectory)
        self.their_writer.flush()

    def end(self, rng):
        self.writer.end_episode()
        self.their_writer.end_episode()
        self.episode = 0

    def sample(self, rng):
        name = rng.choice("ab")
        admitted = self.ours.can_sample(name)
        self.same("can_sample", admitted, self.tables[name].can_sample(1))
        if not admitted:
            return
        ours = self.ours.sample(name, 1)
        (theirs,) = self.client.sample(name, 1, emit_timesteps=False)
        for column, their in zip(sorted(ours.data), theirs.data):  # in the order in which trees are flattened
            self.same(column, ours.data[column][0].tolist(), np.asarray(their).tolist())
        self.same("its priority", float(ours.priorities[0]), theirs.info.priority)
        self.same("its times sampled", int(ours.times_sampled[0]), theirs.info.times_sampled)
        self.same("table size", ours.table_size, theirs.info.table_size)
        self.keys[name][int(ours.keys[0])] = theirs.info.key

    def update(self, rng):
        name = rng.choice("ab")
        if not self.keys[name]:
            return
        key, priority = rng.choice(list(self.keys[name])), float(rng.randrange(4))
        self.ours.update_priorities(name, [key], [priority])
        self.client.mutate_priorities(name, {self.keys[name][key]: priority})

    def delete(self, rng):
        name = rng.choice("ab")
        if not self.keys[name]:
            return
        key = rng.choice(list(self.keys[name]))
        self.ours.delete(name, [key])
        self.client.mutate_priorities(name, deletes=[self.keys[name].pop(key)])

    def reset(self, rng):
        name = rng.choice("ab")
        self.ours.reset(name)
        self.client.reset(name)
        self.keys[name].clear()

    def check(self):
        for name, table in self.tables.items():
            info, mine = table.info, self.ours.info["tables"][name]
            self.same("items", mine["items"], info.current_size)
            self.same("inserts", mine["inserts"], info.rate_limiter_info.insert_stats.completed)
            self.same("samples", mine["samples"], info.rate_limiter_info.sample_stats.completed)

    def close(self):
        self.their_writer.close()
        self.server.stop()


def sequences(seed):
    """How many sequences of operations on sequences were the same."""
    kinds = list(itertools.product(SELECTORS, SELECTORS, (0, 1, 3), LIMITERS))
    operations = {"append": 50, "item": 50, "sample": 40, "update": 20, "delete": 10, "end": 10, "reset": 1}
    for number in range(len(kinds) // 2):
        rng = random.Random(f"{seed} {number}")
        chosen = rng.sample(kinds, 2)
        both, done = BothSequences(chosen), []
        try:
            for _ in range(OPERATIONS):
                done.append(rng.choices(list(operations), list(operations.values()))[0])
                getattr(both, done[-1])(rng)
                both.check()
        except AssertionError as wrong:
            sys.exit(f"tables {chosen}, seed {seed}, operation {len(done)} ({done[-1]}): {wrong}")
        finally:
            both.close()
    return len(kinds) // 2


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    tables = 0
    for kind in itertools.product(SELECTORS, SELECTORS, (0, 1, 3), LIMITERS):
        rng = random.Random(f"{seed} {kind}")
        both, done = Both(*kind), []
        try:
            for _ in range(OPERATIONS):
                operation = rng.choices(("insert", "sample", "update", "delete", "reset"), (50, 40, 20, 10, 1))[0]
                done.append(operation)
                if operation == "insert":
                    both.insert(float(rng.randrange(4)))
                elif operation in ("sample", "reset"):
                    getattr(both, operation)()
                else:
                    getattr(both, operation)(rng)
                both.check()
        except AssertionError as wrong:
            sys.exit(f"sampler {kind[0]}, remover {kind[1]}, max_times_sampled {kind[2]}, limiter {kind[3]}, seed {seed}, operation {len(done)} ({done[-1]}): {wrong}")
        finally:
            both.close()
        tables += 1
    of_sequences = sequences(seed)
    version = importlib.metadata.version("dm-reverb")
    print(f"{tables} sequences of {OPERATIONS} operations on a table and {of_sequences} on two of shared steps: all as Reverb {version} does")


if __name__ == "__main__":
    main()
