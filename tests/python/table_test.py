"""The installed wheel: replay tables. Cases of selectors, limiters and queues are those of Reverb's own tests
(reverb/rate_limiters_test.py, reverb/cc/selectors/*_test.cc, reverb/cc/table_test.cc), by what a user sees of them."""
import gc
import pathlib
import tempfile
import threading
import time
import unittest
import weakref

import numpy as np

import troupe
from troupe import RateLimiter, Table

COLUMNS = {"x": "int64"}


def numbers(*values):
    return {"x": np.array(values)}


def drawn(table, rows=1):
    return table.sample(rows, timeout=0).data["x"].tolist()


class Items(unittest.TestCase):
    def test_come_back_as_they_went_in(self):
        columns = {"image": (np.uint8, (4, 4, 3)), "action": ("float32", (6,)), "done": bool, "reward": float, "id": "int64"}
        table = Table(columns, 100)
        rng = np.random.default_rng(1)
        data = {"image": rng.integers(0, 256, (10, 4, 4, 3), np.uint8), "action": rng.normal(size=(10, 6)).astype(np.float32),
                "done": rng.integers(0, 2, 10).astype(bool), "reward": rng.normal(size=10), "id": np.arange(10)}
        self.assertEqual(table.insert(data), 0)
        self.assertEqual(table.insert({name: column[:3] for name, column in data.items()}), 10)
        self.assertEqual(len(table), 13)
        batch = table.sample(64)
        np.testing.assert_array_equal(batch.keys % 10, batch.data["id"])
        for name, column in data.items():
            np.testing.assert_array_equal(batch.data[name], column[batch.data["id"]], name)
        np.testing.assert_array_equal(batch.probabilities, np.full(64, 1 / 13))
        self.assertEqual(batch.table_size, 13)
        self.assertEqual(batch.data["image"].shape, (64, 4, 4, 3))
        for column in batch.data.values():
            self.assertTrue(column.flags.owndata or column.base is not None)
            column[0] = 0  # the caller's
        self.assertEqual(table.info["samples"], 64)
        self.assertEqual(table.info["inserts"], 13)
        np.testing.assert_array_equal(np.from_dlpack(batch.data["action"]), batch.data["action"])

    def test_errors_say_what_was_expected(self):
        table = Table({"x": ("float32", (2,)), "y": "float32"}, 10)
        good = {"x": np.zeros((3, 2)), "y": np.zeros(3)}
        for change, said in (({"x": np.zeros((3, 3))}, r"x has shape \(3, 3\), expected \(3, 2\)"), ({"y": np.zeros(2)}, r"y has shape \(2,\), expected \(3,\)"),
                             ({"z": np.zeros(3)}, r"unknown columns \['z'\]"), ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, "insert")):
            with self.assertRaisesRegex(troupe.TroupeError, said):
                table.insert(good | change)
        with self.assertRaisesRegex(troupe.TroupeError, "there is no column y"):
            table.insert({"x": good["x"]})
        for priorities in ([1, 2], [1, 2, -1], [1, 2, np.nan]):
            with self.assertRaisesRegex(troupe.TroupeError, "priorit"):
                table.insert(good, priorities)
        self.assertEqual(len(table), 0)
        for options, said in (({"sampler": "newest"}, "sampler is newest, expected one of uniform, prioritized, fifo, lifo, max_heap, min_heap"),
                              ({"remover": "x"}, "remover is x"), ({"max_items": 0}, "max_items"), ({"priority_exponent": -1.0, "sampler": "prioritized"}, "priority_exponent")):
            with self.assertRaisesRegex(troupe.TroupeError, said):
                Table(**({"columns": COLUMNS, "max_items": 10} | options))
        with self.assertRaisesRegex(troupe.TroupeError, "float16"):
            Table({"x": "float16"}, 10)
        with self.assertRaises(troupe.TroupeError):
            table.sample(0)

    def test_are_saved_and_go_on_bit_for_bit(self):
        options = {"columns": COLUMNS, "max_items": 50, "sampler": "prioritized", "remover": "uniform", "max_times_sampled": 7}
        table, other = Table(**options, seed=1), Table(**options, seed=2)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "table")
            table.insert(numbers(*range(80)), np.arange(80) % 5 + 1.0)
            table.sample(60)
            table.save(path)
            other.load(path)
            for _ in range(3):
                one, two = table.sample(20), other.sample(20)
                np.testing.assert_array_equal(one.keys, two.keys)
                np.testing.assert_array_equal(one.data["x"], two.data["x"])
                for each in (table, other):
                    each.insert(numbers(*range(30)))
            for broken in (lambda b: b[:-1], lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:], lambda b: b"no" + b, lambda b: b[:9]):
                wrong = pathlib.Path(folder, "wrong")
                wrong.write_bytes(broken(path.read_bytes()))
                before = other.info
                with self.assertRaises(troupe.TroupeError) as caught:
                    other.load(wrong)
                self.assertEqual(caught.exception.code, "corrupt")
                self.assertEqual(other.info, before)
            with self.assertRaisesRegex(troupe.TroupeError, "capacity is 50, expected 51"):
                Table(**(options | {"max_items": 51})).load(path)


class Selectors(unittest.TestCase):
    def test_by_age(self):
        fifo, lifo = (Table(COLUMNS, 10, sampler=kind) for kind in ("fifo", "lifo"))
        for table in (fifo, lifo):
            table.insert(numbers(1, 2, 3))
        self.assertEqual(drawn(fifo, 2), [1, 1])
        self.assertEqual(drawn(lifo, 2), [3, 3])

    def test_heaps_go_by_priority_and_then_by_when_it_was_set(self):
        highest, lowest = (Table(COLUMNS, 10, sampler=kind) for kind in ("max_heap", "min_heap"))
        for table in (highest, lowest):
            table.insert(numbers(1, 2, 3, 4), [2.0, 5.0, 1.0, 5.0])
        self.assertEqual(drawn(highest), [2])
        self.assertEqual(drawn(lowest), [3])
        highest.update_priorities([1], [5.0])  # set again: behind the other one
        self.assertEqual(drawn(highest), [4])
        highest.update_priorities([2], [9.0])
        self.assertEqual(drawn(highest), [3])
        lowest.update_priorities([2], [8.0])
        self.assertEqual(drawn(lowest), [1])

    def test_prioritised_draws_are_in_proportion_to_powers(self):
        table = Table(COLUMNS, 10, sampler="prioritized", priority_exponent=0.5)
        table.insert(numbers(0, 1, 2), [0.0, 4.0, 16.0])
        batch = table.sample(9000)
        counts = np.bincount(batch.data["x"], minlength=3)
        self.assertEqual(counts[0], 0)
        self.assertAlmostEqual(counts[1] / 9000, 1 / 3, delta=0.02)
        np.testing.assert_allclose(batch.probabilities, np.where(batch.data["x"] == 1, 1 / 3, 2 / 3))
        self.assertEqual(table.update_priorities([0, 1, 2, 99], [1.0, 0.0, 0.0, 1.0]), 1)
        self.assertEqual(set(drawn(table, 50)), {0})

    def test_the_remover_chooses_among_all_and_the_new_one(self):
        for remover, left in (("fifo", {3, 4, 5}), ("lifo", {1, 2, 5}), ("min_heap", {2, 3, 5}), ("max_heap", {1, 3, 4})):
            table = Table(COLUMNS, 3, remover=remover)
            for value, priority in ((1, 1.0), (2, 5.0), (3, 3.0), (4, 0.5), (5, 4.0)):
                table.insert(numbers(value), [priority])
            if remover == "lifo":
                left = {1, 2, 3}  # the new one itself
            self.assertEqual(set(drawn(table, 100)), left, remover)
            self.assertEqual(table.info["evictions"], 2)

    def test_items_leave_after_max_times_sampled(self):
        table = Table(COLUMNS, 10, sampler="fifo", max_times_sampled=2)
        table.insert(numbers(1, 2))
        batch = table.sample(3)
        self.assertEqual(batch.data["x"].tolist(), [1, 1, 2])
        self.assertEqual(batch.times_sampled.tolist(), [1, 2, 1])
        self.assertEqual(len(table), 1)
        self.assertEqual(drawn(table), [2])
        self.assertEqual(len(table), 0)


class Leaving(unittest.TestCase):
    def test_items_that_are_deleted_are_gone(self):
        for remover, times in (("fifo", 0), ("uniform", 0), ("fifo", 3)):
            table = Table(COLUMNS, 4, sampler="fifo", remover=remover, max_times_sampled=times, limiter=RateLimiter.min_size(2))
            table.insert(numbers(1, 2, 3, 4))
            self.assertEqual(table.delete([0, 2, 2, 99]), 2)
            self.assertEqual((len(table), table.info["evictions"]), (2, 2))
            self.assertEqual(drawn(table), [2])
            self.assertEqual(table.update_priorities([0, 1, 2, 3], [1, 1, 1, 1]), 2)
            table.delete(np.array([1], np.uint64))
            self.assertFalse(table.can_sample())  # too few are left
            self.assertEqual(table.insert(numbers(5)), 4)
            self.assertEqual(drawn(table), [4])

    def test_a_reset_table_begins_anew_but_for_its_keys(self):
        table = Table.queue(COLUMNS, 2)
        table.insert(numbers(1, 2))
        self.assertFalse(table.can_insert())
        table.reset()
        self.assertEqual(table.info | {"bytes": 0}, {"items": 0, "bytes": 0, "inserts": 0, "samples": 0, "evictions": 0})
        self.assertEqual(table.insert(numbers(3, 4)), 2)
        self.assertEqual(table.update_priorities([0, 1], [1, 1]), 2)
        self.assertEqual(drawn(table, 2), [3, 4])

    def test_whoever_waits_for_room_is_woken(self):
        for leave in (lambda table: table.reset(), lambda table: table.delete([0, 1])):
            table = Table(COLUMNS, 4, limiter=RateLimiter(1.0, 3, 0.0, 3.0))
            table.insert(numbers(1, 2, 3))
            waits = threading.Thread(target=table.insert, args=(numbers(4),), kwargs={"timeout": 30})
            waits.start()
            self.assertFalse(table.can_insert())
            leave(table)
            waits.join(20)
            self.assertFalse(waits.is_alive())

    def test_what_was_deleted_and_reset_is_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "table")
            table, other = (Table(COLUMNS, 8, sampler="fifo") for _ in range(2))
            table.insert(numbers(1, 2, 3))
            table.reset()
            table.insert(numbers(4, 5, 6))
            table.delete([4])
            table.save(path)
            other.load(path)
            self.assertEqual((len(other), other.insert(numbers(7))), (2, 6))
            self.assertEqual(other.delete([3]), 0)
            self.assertEqual(drawn(other), [6])


class Extensions(unittest.TestCase):
    def setUp(self):
        self.heard = []

    def listens(self, what):
        return lambda keys, priorities, times: self.heard.append((what, keys.tolist(), priorities.tolist(), times.tolist()))

    def table(self, **options):
        return Table(COLUMNS, 2, on_insert=self.listens("insert"), on_sample=self.listens("sample"), on_update=self.listens("update"),
                     on_delete=self.listens("delete"), **options)

    def test_that_call_their_table_do_not_keep_it(self):
        def make():
            table = Table(COLUMNS, 2, on_insert=lambda *_: len(table))
            table.insert(numbers(1))
            return weakref.ref(table)

        gone = make()
        gc.collect()
        self.assertIsNone(gone())

    def test_hear_of_every_item(self):
        table = self.table(sampler="fifo", max_times_sampled=2)
        table.insert(numbers(1, 2, 3), [0.5, 0.25, 0.125])
        table.sample(1)
        table.update_priorities([1, 2, 7], [4, 5, 6])
        table.sample(1)
        self.assertEqual(self.heard, [
            ("insert", [0, 1, 2], [0.5, 0.25, 0.125], [0, 0, 0]), ("delete", [0], [0.5], [0]), ("sample", [1], [0.25], [1]),
            ("update", [1, 2], [4, 5], [1, 0]), ("sample", [1], [4], [2]), ("delete", [1], [4], [2])])

    def test_are_functions(self):
        for name in ("on_insert", "on_sample", "on_update", "on_delete"):
            with self.assertRaisesRegex(troupe.TroupeError, f"{name} is 3, expected a function"):
                Table(COLUMNS, 10, **{name: 3})

    def test_may_call_the_table_and_raise(self):
        def raises(keys, priorities, times):
            raise KeyError(keys[0])

        table = Table(COLUMNS, 8, on_insert=lambda keys, *about: table.update_priorities(keys, [9] * len(keys)), on_delete=raises)
        table.insert(numbers(1))
        self.assertEqual(table.sample(1).priorities.tolist(), [9])
        with self.assertRaises(KeyError):
            table.insert(numbers(*range(8)))
        self.assertEqual((len(table), table.info["inserts"]), (8, 9))
        table.sample(8)

    def test_load_tells_of_the_items_that_come_and_go(self):
        table, path = self.table(), pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "table"
        table.insert(numbers(1, 2))
        table.save(path)
        self.heard.clear()
        table.load(path)
        self.assertEqual(self.heard, [("insert", [0, 1], [1, 1], [0, 0]), ("delete", [0, 1], [1, 1], [0, 0])])

    def test_hear_of_items_that_are_deleted_or_reset(self):
        table = self.table()
        table.insert(numbers(1, 2))
        self.heard.clear()
        table.delete([1, 9])
        table.reset()
        self.assertEqual(self.heard, [("delete", [1], [1], [0]), ("delete", [0], [1], [0])])

    def test_what_waits_has_done_nothing(self):
        table = self.table(limiter=RateLimiter.min_size(2))
        with self.assertRaises(TimeoutError):
            table.sample(1, timeout=0)
        self.assertEqual(self.heard, [])


class Limiters(unittest.TestCase):
    def test_min_size(self):
        table = Table(COLUMNS, 10, limiter=RateLimiter.min_size(3))
        table.insert(numbers(1, 2))
        self.assertFalse(table.can_sample())
        with self.assertRaisesRegex(TimeoutError, "sample of 1 waits: 1 more items"):
            table.sample(1, timeout=0.05)
        table.insert(numbers(3))
        self.assertTrue(table.can_sample(1000))
        self.assertTrue(table.can_insert(1000))

    def test_sample_to_insert_ratio(self):
        table = Table(COLUMNS, 100, limiter=RateLimiter.sample_to_insert_ratio(2.0, 4, 4.0))
        table.insert(numbers(1, 2, 3, 4))
        self.assertTrue(table.can_insert(2))
        self.assertFalse(table.can_insert(3))
        with self.assertRaisesRegex(TimeoutError, r"insert of 3 waits: 2 more samples"):
            table.insert(numbers(5, 6, 7), timeout=0)
        self.assertTrue(table.can_sample(4))
        self.assertFalse(table.can_sample(5))
        table.sample(4)
        self.assertFalse(table.can_sample())
        self.assertTrue(table.can_insert(4))

    def test_ratios_that_would_block_are_refused(self):
        for ratio, least, buffer in ((0.5, 1, 0.5), (10.0, 1, 9.9), (2.0, 5, (0, 3.9)), (2.0, 5, (11, 21))):
            with self.assertRaises(ValueError, msg=(ratio, least, buffer)):
                RateLimiter.sample_to_insert_ratio(ratio, least, buffer)
        for ratio, least, buffer in ((0.5, 1, 1.0), (10.0, 1, 10.0), (2.0, 5, (8, 12))):
            RateLimiter.sample_to_insert_ratio(ratio, least, buffer)
        for options in ({"samples_per_insert": 0.0}, {"min_size_to_sample": 0}, {"min_diff": 2.0, "max_diff": 1.0}):
            with self.assertRaises(troupe.TroupeError, msg=options):
                Table(COLUMNS, 10, limiter=RateLimiter(**options))

    def test_numbers_may_be_numpys(self):
        limiters = [RateLimiter.sample_to_insert_ratio(2.0, 5, buffer) for buffer in (3.0, np.float32(3), (7, 13))]
        self.assertEqual(limiters, limiters[:1] * 3)


class Queues(unittest.TestCase):
    def test_a_queue_gives_each_once_in_order_and_blocks_on_both_sides(self):
        queue = Table.queue(COLUMNS, 3)
        with self.assertRaises(TimeoutError):
            queue.sample(1, timeout=0)
        queue.insert(numbers(1, 2, 3))
        with self.assertRaises(TimeoutError):
            queue.insert(numbers(4), timeout=0)
        self.assertEqual(drawn(queue, 2), [1, 2])
        queue.insert(numbers(4, 5))
        self.assertEqual(drawn(queue, 3), [3, 4, 5])
        self.assertEqual(len(queue), 0)

    def test_more_rows_than_could_ever_be_admitted_are_refused_at_once(self):
        for table in (Table.queue(COLUMNS, 3), Table(COLUMNS, 100, limiter=RateLimiter(2.0, 1, 0.0, 6.0))):
            with self.assertRaisesRegex(troupe.TroupeError, "4 rows at once, of which its limiter admits 3 at most"):
                table.insert(numbers(1, 2, 3, 4))
            table.insert(numbers(1, 2, 3), timeout=0)

    def test_a_stack_gives_the_newest(self):
        stack = Table.stack(COLUMNS, 3)
        stack.insert(numbers(1, 2, 3))
        self.assertEqual(drawn(stack), [3])
        stack.insert(numbers(4))
        self.assertEqual(drawn(stack, 3), [4, 2, 1])

    def test_a_priority_queue_gives_the_lowest(self):
        queue = Table.priority_queue(COLUMNS, 4)
        queue.insert(numbers(1, 2, 3, 4), [5.0, 1.0, 3.0, 1.0])
        self.assertEqual(drawn(queue, 4), [2, 4, 3, 1])

    def test_a_shuffle_queue_gives_any_while_enough_stay_behind(self):
        queue = Table.random_shuffle_queue(COLUMNS, 100, 5, seed=3)
        queue.insert(numbers(*range(50)))
        taken = [drawn(queue)[0] for _ in range(45)]
        self.assertEqual(len(set(taken)), 45)
        self.assertNotEqual(taken, sorted(taken))
        with self.assertRaises(TimeoutError):
            queue.sample(1, timeout=0)
        self.assertEqual(len(queue), 5)

    def test_threads_wait_for_one_another(self):
        queue, got = Table.queue(COLUMNS, 8), []
        producers = [threading.Thread(target=lambda first=first: [queue.insert(numbers(first + i)) for i in range(200)]) for first in (0, 1000)]

        def consume():
            for _ in range(100):
                got.extend(queue.sample(2).data["x"].tolist())

        consumers = [threading.Thread(target=consume) for _ in range(2)]
        for thread in producers + consumers:
            thread.start()
        for thread in producers + consumers:
            thread.join(60)
        self.assertEqual(sorted(got), sorted([*range(200), *range(1000, 1200)]))

    def test_whoever_waits_is_woken_and_python_goes_on_meanwhile(self):
        queue = Table.queue(COLUMNS, 1)
        waited = []

        def wait():
            begin = time.monotonic()
            queue.sample(1)
            waited.append(time.monotonic() - begin)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.3)  # it holds nothing that this thread needs
        queue.insert(numbers(1))
        thread.join(10)
        self.assertGreater(waited[0], 0.2)
        self.assertLess(waited[0], 5)
