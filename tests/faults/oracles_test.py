#!/usr/bin/env python3
"""Tests of the oracles on made-up observations, and of schedules: each oracle must see what it is there for."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from harness import oracles  # noqa: E402
from harness.observe import Instance, Node, Snapshot, Usage, read_metrics  # noqa: E402
from harness.schedule import Fault, Schedule  # noqa: E402
from harness.testing import main  # noqa: E402

STATUS = """{"run": "demo", "term": 2, "seconds": 4.5, "last_cut": 1,
 "nodes": [{"name": "actors", "incarnation": 1, "state": "up", "address": "10.77.0.1:4000", "silent_s": 0.03}],
 "instances": [{"name": "actor-0", "role": "actor", "node": "actors", "incarnation": 3, "state": "up", "restarts": 2,
                "version": 38, "ports": [{"name": "trajectories", "direction": "out", "depth": 3, "frames": 100}]},
               {"name": "learner", "role": "learner", "node": "learner", "incarnation": 1, "state": "restarting"}],
 "waits": [], "versions": {"actor-0": 38}, "staleness": {"actor-0": 0}}"""


def snapshot(at_s, node=("node-0", 1), instance=("actor-0", 1), term=1, state="up", version=-1):
    name = instance[0]
    one = Instance(name, name.split("-", maxsplit=1)[0], node[0], instance[1], state, version)
    return Snapshot(at_s, term, {node[0]: Node(*node, "up")}, {name: one})


class StatusTest(unittest.TestCase):
    def test_status_is_read(self):
        parsed = Snapshot.parse(STATUS, 5.0)
        self.assertEqual((parsed.at_s, parsed.term), (5.0, 2))
        self.assertEqual(parsed.nodes, {"actors": Node("actors", 1, "up")})
        self.assertEqual(parsed.instances, {
            "actor-0": Instance("actor-0", "actor", "actors", 3, "up", 38, {"trajectories": 100}),
            "learner": Instance("learner", "learner", "learner", 1, "restarting")})

    def test_metrics_are_read_but_not_an_unfinished_row(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "metrics.csv"
            self.assertEqual(read_metrics(path), [])
            path.write_text('wall_s,env_steps,"a,b"\n0.5,10,\n1,20,3\n1.5,3', encoding="utf-8")
            self.assertEqual(read_metrics(path),
                             [{"wall_s": 0.5, "env_steps": 10}, {"wall_s": 1, "env_steps": 20, "a,b": 3}])

    def test_usage_is_that_of_a_process_and_none_for_one_that_is_gone(self):
        usage = Usage.of("me", os.getpid())
        self.assertGreaterEqual(usage.fds, 3)
        self.assertGreater(usage.rss_bytes, 1 << 20)
        self.assertIsNone(Usage.of("nobody", 1 << 30))


class MonotoneVersionsTest(unittest.TestCase):
    def seen(self, name, *versions):
        """What the oracle sees of (incarnation, version) one after the other."""
        return oracles.monotone_versions([snapshot(at, instance=(name, incarnation), version=version)
                                          for at, (incarnation, version) in enumerate(versions)])

    def test_versions_that_stand_or_grow_pass(self):
        self.assertEqual(self.seen("learner", (1, 0), (1, 5), (1, 5), (2, -1), (2, 6)), [])

    def test_a_learner_that_falls_back_is_seen(self):
        self.assertEqual(self.seen("learner", (1, 10), (2, 9), (2, 10)),
                         ["version of learner fell from 10 to 9 at 1.00 s"])

    def test_an_actor_may_start_anew_but_not_fall(self):
        self.assertEqual(self.seen("actor-0", (1, 10), (2, 0)), [])
        self.assertEqual(len(self.seen("actor-0", (1, 10), (1, 0))), 1)


class OneOwnerTest(unittest.TestCase):
    def test_moves_with_a_new_incarnation_pass(self):
        self.assertEqual(oracles.one_owner([snapshot(1), snapshot(2, ("node-1", 1), ("actor-0", 2)),
                                            snapshot(3, ("node-1", 2), ("actor-0", 3))]), [])

    def test_two_nodes_with_one_incarnation_are_seen(self):
        seen = oracles.one_owner([snapshot(1), snapshot(2, ("node-1", 1))])
        self.assertEqual(len(seen), 1)
        self.assertIn("ran on node-0", seen[0])

    def test_an_instance_that_survives_its_process_is_seen(self):
        self.assertEqual(len(oracles.one_owner([snapshot(1), snapshot(2, ("node-0", 2))])), 1)
        self.assertEqual(oracles.one_owner([snapshot(1), snapshot(2, ("node-0", 2), state="restarting")]), [])

    def test_falling_incarnations_and_terms_are_seen(self):
        self.assertEqual(len(oracles.one_owner([snapshot(1, instance=("actor-0", 2)), snapshot(2)])), 1)
        self.assertEqual(len(oracles.one_owner([snapshot(1, term=2), snapshot(2, term=1)])), 1)


class NoGrowthTest(unittest.TestCase):
    def grown(self, since_s=0.0, **changes):
        """Twelve samples in which each named quantity is (at the begin, more with each sample)."""
        values = {"fds": (20, 0), "threads": (8, 0), "rss_bytes": (200 << 20, 0)} | changes
        samples = ({key: base + at * step for key, (base, step) in values.items()} for at in range(12))
        return oracles.no_growth([Usage(at, "replay", 7, **held) for at, held in enumerate(samples)], since_s)

    def test_standing_usage_passes(self):
        self.assertEqual(self.grown(), [])

    def test_each_leak_is_seen(self):
        self.assertEqual(self.grown(fds=(20, 2)), ["fds of replay (process 7) grew from 34 to 39"])
        self.assertEqual(len(self.grown(threads=(8, 1))), 1)
        self.assertEqual(len(self.grown(rss_bytes=(200 << 20, 20 << 20))), 1)

    def test_what_comes_and_goes_is_no_growth(self):
        held = [40, 40, 40, 10, 10, 20, 30, 40, 40, 41, 40, 41]
        self.assertEqual(oracles.no_growth([Usage(at, "chief", 7, fds, 8, 1) for at, fds in enumerate(held)], 0), [])

    def test_a_restarted_process_is_another_one(self):
        usages = [Usage(at, "replay", 7 + at // 6, 20 + 10 * (at // 6), 8, 1 << 20) for at in range(12)]
        self.assertEqual(oracles.no_growth(usages, 0), [])


class NoLostItemsTest(unittest.TestCase):
    def lost(self, *items, window_s=1.0):
        return oracles.no_lost_items([{"replay/items": count, "replay/inserts_per_s": 100.0} for count in items] +
                                     [{"learner_steps": 1.0}], window_s)

    def test_what_the_window_allows_passes(self):
        self.assertEqual(self.lost(100, 200, 110, 300), [])

    def test_more_is_seen(self):
        self.assertEqual(self.lost(100, 300, 110), ["replay fell from 300 to 110 items while 100 came in a second"])
        self.assertEqual(len(self.lost(100, 200, 199, window_s=0)), 1)


class LedgerTest(unittest.TestCase):
    def setUp(self):
        self.ledger = oracles.Ledger()
        for number in range(10):
            self.ledger.acknowledge("actor-0", number, at_s=float(number))

    def present(self, *missing):
        return {("actor-0", number) for number in range(10) if number not in missing}

    def test_nothing_lost_passes(self):
        self.assertEqual(self.ledger.lost(self.present(), 9.5, 0), [])

    def test_a_lost_insert_is_seen(self):
        self.assertEqual(self.ledger.lost(self.present(4), 9.5, 1),
                         ["insert 4 of actor-0, acknowledged 5.50 s before the fault, is gone"])

    def test_the_last_second_counts_only_in_the_durable_mode(self):
        self.assertEqual(self.ledger.lost(self.present(9), 9.5, 1), [])
        self.assertEqual(len(self.ledger.lost(self.present(9), 9.5, 0)), 1)

    def test_what_was_acknowledged_after_the_fault_is_not_judged(self):
        self.assertEqual(self.ledger.lost(self.present(9), 8.5, 0), [])


class CounterTest(unittest.TestCase):
    def setUp(self):
        self.counter = oracles.Counter("env steps")
        for tenth in range(100):  # 10 a second, but none from 4 s to 6 s
            at_s = tenth / 10
            self.counter.add(at_s, 10 * (at_s if at_s < 4 else max(at_s - 2, 4)))

    def test_recovery_is_measured_from_the_fault(self):
        self.assertAlmostEqual(self.counter.reached(4.5, more=1), 6.1)
        self.assertAlmostEqual(self.counter.reached(1.0, more=20), 3.0)
        self.assertIsNone(self.counter.reached(4.5, more=100))

    def test_rate_is_growth_over_time(self):
        self.assertAlmostEqual(self.counter.rate(1, 3), 10)
        self.assertAlmostEqual(self.counter.rate(3, 7), 5)
        self.assertEqual(self.counter.rate(20, 30), 0)

    def test_a_standstill_is_seen(self):
        self.assertEqual(self.counter.stalled(0, 9.9, limit_s=3), [])
        self.assertEqual(len(self.counter.stalled(0, 9.9, limit_s=1)), 1)
        self.assertEqual(self.counter.stalled(6.2, 9.9, limit_s=1), [])

    def test_a_standstill_at_the_end_is_seen(self):
        self.assertEqual(len(self.counter.stalled(0, 12, limit_s=1.5)), 2)


class ScheduleTest(unittest.TestCase):
    @staticmethod
    def plan(random):
        return [Fault(random.uniform(0, 9), "kill", f"actor-{random.randrange(4)}", {"number": 9}) for _ in range(5)]

    def test_a_seed_is_one_schedule(self):
        self.assertEqual(Schedule.make("F1", 7, self.plan), Schedule.make("F1", 7, self.plan))
        self.assertNotEqual(Schedule.make("F1", 7, self.plan).faults, Schedule.make("F1", 8, self.plan).faults)
        self.assertNotEqual(Schedule.make("F1", 7, self.plan).faults, Schedule.make("F2", 7, self.plan).faults)

    def test_faults_come_in_order_and_a_file_repeats_them_exactly(self):
        made = Schedule.make("F1", 7, self.plan)
        self.assertEqual([fault.at_s for fault in made.faults], sorted(fault.at_s for fault in made.faults))
        with tempfile.TemporaryDirectory() as folder:
            made.write(pathlib.Path(folder) / "schedule.json", commit="abc")
            self.assertEqual(Schedule.read(pathlib.Path(folder) / "schedule.json"), made)


if __name__ == "__main__":
    main()
