"""The installed wheel: several tables of sequences over shared steps. Cases are those of Reverb's trajectory writer
(reverb/trajectory_writer_test.py), by what a user sees of it."""
import gc
import pathlib
import random
import tempfile
import threading
import unittest

import numpy as np

import troupe
from troupe import RateLimiter, SequenceReplay, TableSpec

STEP = {"id": "int64", "image": ("uint8", (2, 3)), "reward": "float32"}


def step(number):
    return {"id": number, "image": np.full((2, 3), number % 256), "reward": number / 2}


def ids(batch, row=0):
    return batch.data["id"][row, : batch.lengths[row]].tolist()


class Sequences(unittest.TestCase):
    def test_of_one_length_and_of_several_come_padded_to_the_longest(self):
        replay = SequenceReplay(STEP, {"all": TableSpec(10, sampler="fifo", max_times_sampled=1)})
        with replay.writer(max_steps=5) as writer:
            for number in range(5):
                writer.append(step(number))
                writer.create_item("all", steps=min(number + 1, 3), priority=number)
        batch = replay.sample("all", 4)
        self.assertEqual(batch.lengths.tolist(), [1, 2, 3, 3])
        self.assertEqual(batch.data["id"].tolist(), [[0, 0, 0], [0, 1, 0], [0, 1, 2], [1, 2, 3]])
        self.assertEqual(batch.data["image"].shape, (4, 3, 2, 3))
        self.assertEqual(batch.data["image"].dtype, np.uint8)
        self.assertEqual(batch.data["reward"][3].tolist(), [0.5, 1, 1.5])
        self.assertEqual(batch.priorities.tolist(), [0, 1, 2, 3])
        self.assertEqual((batch.times_sampled.tolist(), batch.table_size), ([1, 1, 1, 1], 5))

    def test_a_pattern_says_what_batches_have_of_an_items_steps(self):
        pattern = {"id": ("id", slice(0, -1)), "next_id": ("id", slice(1, None)), "two": ("id", slice(-3, -1)), "second": ("id", slice(1, 2)),
                   "image": ("image", -2), "first": ("reward", 0)}
        specs = {"made": TableSpec(10, sampler="fifo", max_times_sampled=1, pattern=pattern), "plain": TableSpec(10, sampler="fifo")}
        replay = SequenceReplay(STEP, specs, chunk_steps=2)
        with replay.writer(max_steps=9) as writer:
            for number in range(7):
                writer.append(step(number))
                if number >= 2:
                    writer.create_item("made", steps=min(number + 1, 4))
                    writer.create_item("plain", steps=2)
            with self.assertRaisesRegex(troupe.TroupeError, 'an item of 2 steps for table "made": expected at least 3'):
                writer.create_item("made", steps=2)
        batch = replay.sample("made", 3)
        self.assertEqual(list(batch.data), list(pattern))
        self.assertEqual(batch.lengths.tolist(), [3, 4, 4])
        self.assertEqual(batch.data["id"].tolist(), [[0, 1, 0], [0, 1, 2], [1, 2, 3]])
        self.assertEqual(batch.data["next_id"].tolist(), [[1, 2, 0], [1, 2, 3], [2, 3, 4]])
        self.assertEqual(batch.data["two"].tolist(), [[0, 1], [1, 2], [2, 3]])
        self.assertEqual(batch.data["second"].tolist(), [[1], [1], [2]])
        self.assertEqual(batch.data["image"].tolist(), [np.full((2, 3), number).tolist() for number in (1, 2, 3)])
        self.assertEqual(batch.data["first"].tolist(), [0, 0, 0.5])
        self.assertEqual(replay.sample("plain", 1).data["id"].tolist(), [[1, 2]])
        for wrong, words in (({}, "expected at least one"), ({"x": ("nothing", 0)}, "column x: a step has no column nothing"),
                             ({"x": ("id", slice(2, 2))}, "steps 2 to 2: these are none"), ({"x": ("id", slice(0, 4, 2))}, "step of 2"),
                             ({"x": ("id", slice(-2, 0))}, "are none"), ({"x": ("id", slice(-2, 3))}, "from an item's end")):
            with self.assertRaisesRegex(troupe.TroupeError, f'table "made", pattern: .*{words}'):
                SequenceReplay(STEP, {"made": TableSpec(1, pattern=wrong)})

    def test_a_whole_episode_is_an_item_and_none_reaches_over_its_end(self):
        replay = SequenceReplay(STEP, {"whole": TableSpec(10, sampler="lifo")})
        writer = replay.writer(max_steps=100)
        for episode in range(2):
            writer.extend({name: np.stack([step(10 * episode + i)[name] for i in range(7)]) for name in STEP})
            writer.create_item("whole")
            self.assertEqual(ids(replay.sample("whole", 1)), [10 * episode + i for i in range(7)])
            with self.assertRaisesRegex(troupe.TroupeError, "8 steps .* expected 1 to 7"):
                writer.create_item("whole", steps=8)
            writer.end_episode()
        with self.assertRaisesRegex(troupe.TroupeError, "0 steps"):
            writer.create_item("whole")
        self.assertEqual(replay.info["episodes"], 2)

    def test_items_are_deleted_with_the_steps_that_no_other_has(self):
        replay = SequenceReplay(STEP, {"a": TableSpec(9, sampler="fifo"), "b": TableSpec(9)}, chunk_steps=1)
        with replay.writer(max_steps=3) as writer:
            for number in range(6):
                writer.append(step(number))
                writer.create_item("a", steps=1)
            writer.create_item("b", steps=3)
        self.assertEqual(replay.info["steps"], 6)
        self.assertEqual(replay.delete("a", [0, 4, 77]), 1)
        self.assertEqual(replay.info["steps"], 5)  # one is an item of b's too
        self.assertEqual(ids(replay.sample("a", 1)), [1])
        replay.reset("a")
        self.assertEqual((replay.info["steps"], replay.info["tables"]["a"]["inserts"]), (3, 0))
        replay.reset("b")
        self.assertEqual(replay.info["steps"], 0)
        with self.assertRaisesRegex(troupe.TroupeError, 'no table "c"'):
            replay.reset("c")

    def test_steps_are_in_memory_once_and_go_with_their_last_item(self):
        replay = SequenceReplay(STEP, {"a": TableSpec(3), "b": TableSpec(2)}, chunk_steps=1)
        with replay.writer(max_steps=4) as writer:
            for number in range(20):
                writer.append(step(number))
                writer.create_item("a", steps=min(4, number + 1))
                writer.create_item("b", steps=min(2, number + 1))
            self.assertEqual(replay.info["writers"], 1)
        info = replay.info
        self.assertEqual((info["steps"], info["writers"]), (6, 0))  # 14 to 19
        self.assertEqual({name: table["items"] for name, table in info["tables"].items()}, {"a": 3, "b": 2})
        self.assertEqual(info["tables"]["a"]["max_items"], 3)

    def test_a_writer_that_is_dropped_keeps_no_steps(self):
        replay = SequenceReplay(STEP, {"a": TableSpec(10)})
        writer = replay.writer(max_steps=50)
        for number in range(50):
            writer.append(step(number))
        self.assertEqual(replay.info["steps"], 50)
        del writer
        gc.collect()
        self.assertEqual(replay.info["steps"], 0)

    def test_an_item_that_is_used_up_is_still_given(self):
        replay = SequenceReplay(STEP, {"queue": TableSpec.queue(4)}, chunk_steps=1)
        with replay.writer(max_steps=2) as writer:
            for number in range(3):
                writer.append(step(number))
                writer.create_item("queue", steps=1)
                writer.end_episode()
        self.assertEqual([ids(replay.sample("queue", 1)) for _ in range(3)], [[0], [1], [2]])
        self.assertEqual(replay.info["steps"], 0)

    def test_limiters_of_each_table_hold_up_whoever_is_ahead(self):
        replay = SequenceReplay(STEP, {"queue": TableSpec.queue(1), "free": TableSpec(5, limiter=RateLimiter.min_size(2))})
        writer = replay.writer(max_steps=2)
        writer.append(step(0))
        writer.create_item("queue")
        self.assertEqual((replay.can_insert("queue"), replay.can_sample("queue"), replay.can_sample("free")), (False, True, False))
        with self.assertRaisesRegex(TimeoutError, 'create_item: table "queue": insert of 1 waits'):
            writer.create_item("queue", timeout=0.05)
        with self.assertRaisesRegex(TimeoutError, "sample: table \"free\""):
            replay.sample("free", 1, timeout=0)
        waits = threading.Timer(0.2, lambda: replay.sample("queue", 1))
        waits.start()
        writer.create_item("queue", timeout=30)
        waits.join()

    def test_priorities(self):
        replay = SequenceReplay(STEP, {"ranked": TableSpec(5, sampler="max_heap")})
        writer = replay.writer(max_steps=1)
        keys = []
        for number in range(3):
            writer.append(step(number))
            keys.append(writer.create_item("ranked", steps=1, priority=number))
        self.assertEqual(ids(replay.sample("ranked", 1)), [2])
        self.assertEqual(replay.update_priorities("ranked", [keys[0], 99], [7, 7]), 1)
        self.assertEqual(ids(replay.sample("ranked", 1)), [0])

    def test_are_saved_whole_or_table_by_table(self):
        tables = {"a": TableSpec(8, seed=3), "b": TableSpec(4, sampler="prioritized")}
        replay, path = SequenceReplay(STEP, tables), pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "image"
        with replay.writer(max_steps=6) as writer:
            for number in range(30):
                writer.append(step(number))
                writer.create_item("a", steps=min(6, number + 1))
                writer.create_item("b", steps=1, priority=number)
        replay.save(path)
        other = SequenceReplay(STEP, tables)
        other.load(path)
        for name in tables:
            mine, its = replay.sample(name, 16), other.sample(name, 16)
            self.assertEqual(mine.keys.tolist(), its.keys.tolist())
            self.assertEqual(mine.data["id"].tolist(), its.data["id"].tolist())
        replay.save(path, ["b"])
        third = SequenceReplay(STEP, {"b": tables["b"]})
        third.load(path, ["b"])
        self.assertEqual((third.info["tables"]["b"]["items"], len(path.read_bytes()) < 4000), (4, True))
        before = third.info
        path.write_bytes(path.read_bytes()[:-1])
        with self.assertRaisesRegex(troupe.TroupeError, "damaged or cut short"):
            third.load(path)
        with self.assertRaises(troupe.TroupeError):
            SequenceReplay({"id": "int32"}, {"b": tables["b"]}).load(path)
        self.assertEqual(third.info, before)

    def test_errors_say_what_was_expected(self):
        for made, words in ((lambda: SequenceReplay(STEP, {}), "no table"), (lambda: SequenceReplay({}, {"a": TableSpec(1)}), "no columns"),
                            (lambda: SequenceReplay(STEP, {"a": TableSpec(1, sampler="best")}), "sampler is best, expected one of uniform"),
                            (lambda: SequenceReplay(STEP, {"a": TableSpec(0)}), "max_items"),
                            (lambda: SequenceReplay(STEP, {"a": TableSpec(1)}, chunk_steps=0), "chunk_steps: got 0")):
            with self.assertRaisesRegex(troupe.TroupeError, words):
                made()
        replay = SequenceReplay(STEP, {"a": TableSpec(1)})
        writer = replay.writer(max_steps=2)
        with self.assertRaisesRegex(troupe.TroupeError, "there is no column image"):
            writer.append({"id": 1})
        with self.assertRaisesRegex(troupe.TroupeError, 'no table "b", there are: a'):
            replay.sample("b", 1)
        with self.assertRaisesRegex(troupe.TroupeError, "max_steps: got 0"):
            replay.writer(0)
        writer.close()
        writer.close()
        with self.assertRaisesRegex(troupe.TroupeError, "the writer is closed"):
            writer.append(step(1))

    def test_a_batch_that_memory_does_not_hold_keeps_no_steps(self):
        replay = SequenceReplay({"x": ("uint8", (1 << 27,))}, {"a": TableSpec(1, sampler="fifo", max_times_sampled=1 << 20)}, chunk_steps=1)
        with replay.writer(max_steps=1) as writer:
            writer.append({"x": np.zeros(1 << 27, np.uint8)})
            writer.create_item("a")
        with self.assertRaises(MemoryError):
            replay.sample("a", 1 << 20)  # 2^47 bytes
        self.assertEqual(replay.info["steps"], 0)  # these were its draws

    def test_many_threads(self):
        replay = SequenceReplay(STEP, {"queue": TableSpec.queue(8), "some": TableSpec(50)}, chunk_steps=3)
        got, wrong = [], []

        def produce(first):
            rng = random.Random(first)
            with replay.writer(max_steps=5) as writer:
                for number in range(first, first + 200):
                    writer.append(step(number))
                    writer.create_item("some", steps=rng.randint(1, min(5, number - first + 1)))
                    writer.create_item("queue", steps=1)

        def consume():
            for _ in range(200):
                got.extend(ids(replay.sample("queue", 1)))
                batch = replay.sample("some", 4)
                for row in range(4):
                    run = ids(batch, row)
                    if run != list(range(run[0], run[0] + len(run))) or (batch.data["reward"][row, : len(run)] != np.array(run) / 2).any():
                        wrong.append(run)

        threads = [threading.Thread(target=produce, args=(first,)) for first in (0, 1000)] + [threading.Thread(target=consume) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(sorted(got), [*range(200), *range(1000, 1200)])
        self.assertEqual(wrong, [])
