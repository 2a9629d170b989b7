#!/usr/bin/env python3
"""Tests of the hosts and networks that the scenarios run on: each fault does what it says and no more; nothing is left.

The delay emulator's path comes in the environment variable TROUPE_DELAY_EMULATOR.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness import network as faults  # noqa: E402
from harness.network import Network, NetworkError  # noqa: E402
from harness.testing import main, needs  # noqa: E402

EMULATOR = os.environ.get("TROUPE_DELAY_EMULATOR", "delay_emulator")
PROBE = [sys.executable, "-ISu", str(HERE / "probe.py")]
PYTHON = [sys.executable, "-c"]


def begin(host, *what):
    """Starts a probe that serves, and waits until it does."""
    program = host.start([*PROBE, *map(str, what)])
    if program.output.wait_for("up", timeout_s=10) is None:
        raise AssertionError(f"probe {what}: {program.output.text()}")
    return program


def probe(host, *what):
    done = host.run([*PROBE, *map(str, what)])
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout) if done.stdout else None


def datagrams(sender, receiver, count, interval_ms=1.0, port=900):
    """[[number, ms on the way], ...] of `count` datagrams in order of arrival."""
    collector = begin(receiver, "collect", port)
    probe(sender, "send", receiver.address, port, count, interval_ms)
    time.sleep(0.1)  # more than any cable here delays
    collector.signal(signal.SIGTERM)
    collector.wait(timeout_s=10)
    return json.loads(collector.output.text().splitlines()[-1])


class NetworkCase(unittest.TestCase):
    """Two hosts, a and b."""

    cable = "fast"

    def setUp(self):
        self.network = Network(EMULATOR, seed=5)
        self.addCleanup(self.network.close)
        self.network.__enter__()
        self.a, self.b = self.network.add_host("a"), self.network.add_host("b", self.cable)


@needs("root", "hosts")
class HostTest(NetworkCase):
    def test_hosts_reach_each_other_at_their_own_addresses(self):
        begin(self.a, "echo", 900)
        self.assertEqual(len(list(filter(None, probe(self.b, "ping", self.a.address, 900, 3)))), 3)
        self.assertNotEqual(self.a.address, self.b.address)
        self.assertEqual(self.b.run(["hostname"]).stdout.strip(), "b")

    def test_programs_see_only_their_host(self):
        program = begin(self.a, "echo", 900)
        self.assertEqual([p.argv for p in self.a.processes()], [tuple([*PROBE, "echo", "900"])])
        self.assertEqual(self.b.processes(), [])
        self.assertLess(program.process.inner_pid, 20)
        self.assertNotIn("probe.py", self.b.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"]).stdout)

    def test_killing_a_host_ends_all_it_runs_at_once_and_it_can_boot_again(self):
        programs = [begin(self.a, "echo", port) for port in (900, 901)]
        began = time.monotonic()
        self.a.kill()
        self.assertEqual([program.wait(timeout_s=1) for program in programs], [-signal.SIGKILL] * 2)
        self.assertLess(time.monotonic() - began, 0.5)
        self.assertFalse(self.a.is_up)
        self.a.boot()
        begin(self.a, "echo", 900)
        self.assertIsNotNone(probe(self.b, "ping", self.a.address, 900, 1)[0])

    def test_a_killed_host_closes_no_connection(self):
        begin(self.a, "sink", 4000)
        hold = (f"import socket\nclient = socket.create_connection(('{self.a.address}', 4000))\n"
                "print('up', flush=True)\nclient.settimeout(0.5)\nprint(client.recv(1))")
        client = self.b.start([*PYTHON, hold])
        client.output.wait_for("up", timeout_s=10)
        self.a.kill()
        client.wait(timeout_s=10)
        self.assertIn("TimeoutError", client.output.text())

    def test_a_stopped_program_is_silent_until_it_goes_on(self):
        program = begin(self.a, "echo", 900)
        program.signal(signal.SIGSTOP)
        self.assertEqual(probe(self.b, "ping", self.a.address, 900, 1), [None])
        program.signal(signal.SIGCONT)
        self.assertIsNotNone(probe(self.b, "ping", self.a.address, 900, 1)[0])

    def test_orphans_leave_no_zombies(self):
        self.a.run(["sh", "-c", "sleep 0.05 & exit 0"])
        time.sleep(0.2)
        # A process without arguments is a kernel thread or a zombie, and a PID namespace has no kernel threads.
        self.assertEqual(self.a.run(["sh", "-c", "grep -l State:.Z /proc/[0-9]*/status"]).stdout, "")

    def test_listeners_are_found_with_their_process(self):
        server = begin(self.a, "sink", 4000)
        self.assertEqual(self.a.listeners(), [("0.0.0.0", 4000, server.process.inner_pid)])
        self.assertEqual(self.b.listeners(), [])

    def test_output_comes_with_its_time_and_into_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            program = self.a.start(["sh", "-c", "echo one; sleep 0.3; echo two"], log=log)
            one, two = program.output.wait_for("one", 5), program.output.wait_for("two", 5)
            self.assertGreater(two - one, 0.25)
            self.assertIsNone(program.output.wait_for("three", 5))  # at once: the program has ended
            self.assertEqual(log.read_text(encoding="utf-8"), "one\ntwo\n")

    def test_a_small_disk_gets_full(self):
        with tempfile.TemporaryDirectory() as folder:
            self.a.mount_tmpfs(folder, "1m")
            full = self.a.run(["dd", "if=/dev/zero", f"of={folder}/file", "bs=64k", "count=32"])
            self.assertIn("No space left", full.stderr)
            self.assertEqual((self.a.path(folder) / "file").stat().st_size, 1 << 20)


@needs("root", "hosts")
class RemoteShellTest(NetworkCase):
    shell = [sys.executable, "-ISu", str(HERE / "harness/remote_shell.py")]

    def setUp(self):
        super().setUp()
        self.server = self.b.start([*self.shell, "serve"])
        self.server.output.wait_for("up", timeout_s=10)

    def ssh(self, *words, address=None):
        return self.a.start([*self.shell, "ssh", "-T", "-o", "BatchMode=yes", address or self.b.address, "--", *words])

    def test_output_and_exit_status_come_back(self):
        program = self.ssh("hostname;", "echo", "'and more'", ">&2;", "exit", "7")
        self.assertEqual(program.wait(timeout_s=10), 7)
        self.assertEqual(program.output.text(), "b\nand more")

    def test_the_end_of_the_input_arrives(self):
        done = self.a.run(["sh", "-c", f"echo word | {' '.join(self.shell)} ssh {self.b.address} -- sed s/o/e/"])
        self.assertEqual(done.stdout, "werd\n")

    def test_a_host_that_cannot_be_reached_is_255(self):
        self.assertEqual(self.ssh("true", address="10.77.0.1").wait(timeout_s=10), 255)

    def test_a_dead_connection_ends_the_input_there_and_the_program_here(self):
        program = self.ssh("cat;", "echo", "over", ">&2;", "sleep", "1000")
        time.sleep(0.3)
        program.signal(signal.SIGKILL)
        deadline = time.monotonic() + 5
        while any("cat" in process.argv for process in self.b.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        argvs = [process.argv for process in self.b.processes()]
        self.assertIn(("sleep", "1000"), argvs)
        self.assertNotIn(("cat",), argvs)
        program = self.ssh("sleep", "1000")
        time.sleep(0.3)
        self.server.signal(signal.SIGKILL)
        self.assertEqual(program.wait(timeout_s=5), 255)


class LimitsTest(NetworkCase):
    @needs("root", "hosts", "cpu")
    def test_a_host_gets_no_more_processor_than_its_share(self):
        self.a.limit_cpu(0.2)
        spin = "import time\nend = time.time() + 1\nwhile time.time() < end: pass\nprint(time.process_time())"
        self.assertLess(float(self.a.run([*PYTHON, spin]).stdout), 0.35)  # a quota period of slack, and the start

    @needs("root", "hosts", "cpu")
    def test_the_limit_meets_programs_that_run_already(self):
        spin = "import time\nprint('up', flush=True)\nend = time.time() + 1\nwhile time.time() < end: pass\n"
        program = self.a.start([*PYTHON, spin + "print(time.process_time())"])
        program.output.wait_for("up", timeout_s=10)
        self.a.limit_cpu(0.2)
        program.wait(timeout_s=10)
        self.assertLess(float(program.output.text().split()[-1]), 0.45)

    @needs("root", "hosts", "memory")
    def test_the_kernel_ends_a_program_that_takes_more_memory_than_its_host_has(self):
        self.a.limit_memory(64 << 20)
        self.assertEqual(self.a.run([*PYTHON, "bytearray(200 << 20)"]).returncode, -signal.SIGKILL)


@needs("root", "hosts", "nft")
class PacketFilterTest(NetworkCase):
    def reaches(self, sender, receiver):
        return len(datagrams(sender, receiver, 3)) == 3

    def test_a_partition_is_silent_both_ways_until_it_heals(self):
        self.network.partition({"a"}, {"b"})
        self.assertEqual((self.reaches(self.a, self.b), self.reaches(self.b, self.a)), (False, False))
        self.assertEqual(probe(self.a, "connect", self.b.address, 4000), "TimeoutError")
        self.network.heal()
        self.assertEqual((self.reaches(self.a, self.b), self.reaches(self.b, self.a)), (True, True))

    def test_a_one_way_black_hole_has_one_way(self):
        self.network.block({"a"}, {"b"})
        self.assertEqual((self.reaches(self.a, self.b), self.reaches(self.b, self.a)), (False, True))

    def test_a_third_host_is_not_met(self):
        third = self.network.add_host("c")
        self.network.partition({"a"}, {"b"})
        self.assertTrue(self.reaches(self.a, third) and self.reaches(third, self.b))

    def test_a_refusal_is_a_reset(self):
        begin(self.b, "sink", 4000)
        self.network.refuse({"a"}, {"b"})
        self.assertEqual(probe(self.a, "connect", self.b.address, 4000), "ConnectionRefusedError")
        self.network.heal()
        self.assertEqual(probe(self.a, "connect", self.b.address, 4000), "connected")

    def test_about_the_wanted_share_is_lost(self):
        self.network.lose({"b"}, 0.2)
        came = len(datagrams(self.a, self.b, 1000, interval_ms=0.2))
        self.assertAlmostEqual(came, 800, delta=65)  # 5 standard deviations of 12.6


@needs("root", "hosts", "rate")
class RateTest(NetworkCase):
    def test_a_host_sends_no_faster_than_its_rate(self):
        begin(self.b, "sink", 4000)
        self.network.limit_rate("a", "8mbit")
        self.assertAlmostEqual(probe(self.a, "flood", self.b.address, 4000, 1_000_000), 1.0, delta=0.35)
        self.network.limit_rate("a", None)
        begin(self.b, "sink", 4001)
        self.assertLess(probe(self.a, "flood", self.b.address, 4001, 1_000_000), 0.3)


@needs("root", "hosts", "delay")
class SlowCableTest(NetworkCase):
    cable = "slow"

    def round_trip_ms(self):
        """The shortest of some: a busy machine makes some longer, nothing makes one shorter."""
        return min(filter(None, probe(self.a, "ping", self.b.address, 900, 15)))

    def test_a_round_trip_takes_the_delay_twice(self):
        begin(self.b, "echo", 900)
        self.assertLess(self.round_trip_ms(), 5)
        self.network.cable("b").set(delay_ms=15)
        self.assertTrue(30 <= self.round_trip_ms() < 38)
        self.network.cable("b").set_one_way("ab")
        self.assertTrue(15 <= self.round_trip_ms() < 23)

    def test_jitter_spreads_and_keeps_the_order(self):
        self.network.cable("b").set(delay_ms=20, jitter_ms=10)
        came = datagrams(self.a, self.b, 200, interval_ms=2)
        self.assertEqual([number for number, _ in came], list(range(200)))
        times = sorted(ms for _, ms in came)
        self.assertLess(times[0], 20)
        self.assertGreater(times[-1] - times[0], 8)
        self.assertGreaterEqual(times[0], 10)

    def test_a_seed_is_one_fate(self):
        fates = []
        for seed in (5, 5, 6):
            with Network(EMULATOR, seed) as other:
                sender, receiver = other.add_host("a"), other.add_host("b", "slow")
                other.cable("b").set(loss=0.2)
                fates.append([number for number, _ in datagrams(sender, receiver, 300)])
        self.assertEqual(fates[0], fates[1])
        self.assertNotEqual(fates[0], fates[2])
        self.assertAlmostEqual(len(fates[0]), 240, delta=35)  # 5 standard deviations of 6.9

    def test_some_come_twice_and_some_overtake(self):
        self.network.cable("b").set(delay_ms=20, duplicate=0.1)
        numbers = [number for number, _ in datagrams(self.a, self.b, 200)]
        self.assertEqual(set(numbers), set(range(200)))
        self.assertAlmostEqual(len(numbers), 220, delta=22)
        self.network.cable("b").set(delay_ms=20, reorder=0.1)
        numbers = [number for number, _ in datagrams(self.a, self.b, 200, port=901)]
        self.assertEqual(sorted(numbers), list(range(200)))
        overtaken = sum(later < earlier for earlier, later in zip(numbers, numbers[1:]))
        self.assertGreater(overtaken, 5)

    def test_frames_are_counted(self):
        self.network.cable("b").set(loss=1)
        self.assertEqual(datagrams(self.a, self.b, 10), [])
        stats = self.network.cable("b").stats()["ba"]
        self.assertEqual((stats["received"], stats["lost"], stats["delivered"]), (10, 10, 0))

    def test_what_it_does_not_understand_changes_nothing(self):
        for impairment in {"delay": 1}, {"loss": 1.5}, {"delay_ms": "x"}, {"delay_ms": 1, "jitter_ms": 2}:
            with self.subTest(impairment), self.assertRaisesRegex(NetworkError, "unknown key or value out of range"):
                self.network.cable("b").set(**impairment)
        self.assertEqual(len(datagrams(self.a, self.b, 3)), 3)


CRASHING = """
import os, signal, sys
sys.path.insert(0, {folder!r})
from harness.network import Network
with Network({emulator!r}) as network:
    network.add_host("a", {cable!r}).start(["sleep", "1000"])
    network.hosts["a"].limit_cpu(0.5)
    print(network.run_name.number, flush=True)
    {end}
"""


@needs("root", "hosts", "cpu", "delay")
class LeftoversTest(unittest.TestCase):
    def remains(self, number):
        spaces = [path for path in faults.NETNS.glob("*") if f".{number}." in path.name]
        groups = [path for path in faults.CGROUPS.glob("cpu/*") if f".{number}." in path.name]
        return len(spaces), len(groups)

    def crashed(self, end="os.kill(os.getpid(), signal.SIGKILL)"):
        code = CRASHING.format(folder=str(HERE), emulator=EMULATOR, cable="slow", end=end)
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        return process, process.stdout.readline().strip()

    def test_leaving_removes_everything(self):
        process, number = self.crashed(end="pass")
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(self.remains(number), (0, 0))

    def test_an_error_inside_removes_everything_too(self):
        process, number = self.crashed(end="raise SystemExit(3)")
        self.assertEqual(process.wait(20), 3)
        self.assertEqual(self.remains(number), (0, 0))

    def test_the_next_run_removes_what_a_crashed_one_left_and_spares_those_that_live(self):
        living, living_number = self.crashed(end="sys.stdin.read()")
        process, number = self.crashed()
        process.wait(20)
        faults.remove_leftovers()
        self.assertEqual(self.remains(number), (0, 0))
        self.assertEqual(self.remains(living_number), (2, 1))
        living.communicate("", timeout=20)
        self.assertEqual(self.remains(living_number), (0, 0))


if __name__ == "__main__":
    main()
