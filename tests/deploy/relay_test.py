#!/usr/bin/env python3
"""The relay of python/troupe/relay.py, and `troupe up --via` over it: places are plain subprocesses of this test, each with
an address of its own on loopback, which die and come back elsewhere as a scheduler's would."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))
RELAY = ROOT / "python/troupe/relay.py"
sys.dont_write_bytecode = True
sys.path.insert(0, str(RELAY.parent))
import fetch  # noqa: E402
import relay  # noqa: E402

sys.path.pop(0)  # other modules of that folder have names of well-known packages

CONFIG = """env = "cartpole-swingup"
max_env_steps = 0
[actors]
count = 2
[replay]
min_items = 300
samples_per_insert = 2
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
[placement]
actors.nodes = 2
replay.nodes = 0
learner.nodes = 0
parameters.nodes = 0
evaluator.nodes = 0
"""
HOSTS = "".join(f'[[hosts]]\nssh = "{name}"\ntroupe = "troupe"\nnodes = {nodes}\n'
                for name, nodes in (("chief", "{}"), ("one", "{ actors = 1 }"), ("two", "{ actors = 1 }")))


def wait_until(condition, what, timeout_s=40):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(0.01)


class PlainPlaces:
    """Places by name. One that is down is being restarted."""

    def __init__(self, folder, *names):
        self._folder, self._addresses = folder, 0
        self._lock = threading.Lock()
        self._places = {}
        self.up(*names)

    def up(self, *names, folder=None):
        for name in names:
            self._addresses += 1
            self._places[name] = relay.Place(f"127.0.0.{self._addresses + 1}", str(pathlib.Path(TROUPE).parent),
                                             str(folder or self._folder))

    def kill(self, name):
        place = self._places.pop(name)
        for process in list(place._processes.values()):
            process.kill()  # the tether, with which the kernel ends the node

    def run(self, place, token, command):
        if place == "lost":
            raise relay.Lost("nobody knows it")
        if place not in self._places:
            raise relay.Restarting
        there = self._places[place]
        for output in there.run(token, command):
            if self._places.get(place) is not there:
                raise relay.Restarting
            yield output

    def feed(self, place, token, data):
        if place in self._places:
            self._places[place].feed(token, data)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-relay-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.places = PlainPlaces(self.folder, "chief", "one", "two")
        self.enterContext(relay.RelayServer(str(self.folder / "socket"), self.places))


class Protocol(Folder):
    def connect(self, place, *words, **options):
        return subprocess.Popen([sys.executable, "-ISs", RELAY, "connect", self.folder / "socket", place, "--", *words],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def test_input_output_and_exit_code_pass(self):
        data = os.urandom(3_000_000)
        process = self.connect("one", "'sh'", "'-c'", "'cat; echo it is \"$TROUPE_HOST\" >&2; exit 7'")
        out, errors = process.communicate(data, timeout=20)
        self.assertEqual((process.returncode, errors), (7, b""))
        self.assertEqual(out, data + b"it is 127.0.0.3\n")

    def test_a_signal_and_a_missing_program_are_exit_codes(self):
        process = self.connect("one", "sh", "-c", "'kill -KILL $$'")
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 137)
        process = self.connect("one", "/no/such/program")
        out, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (127, b"/no/such/program: No such file or directory\n"))

    def test_the_command_s_input_ends_with_the_relay(self):
        process = self.connect("one", "sh", "-c", f"'echo $$; cat >/dev/null; echo ended >{self.folder}/ended'")
        process.stdout.readline()
        process.kill()
        process.communicate()
        wait_until(lambda: (self.folder / "ended").exists(), "the end of its input")

    def test_a_place_that_dies_or_is_not_there_is_told_from_the_command(self):
        process = self.connect("one", "sh", "-c", "'echo runs; exec sleep 1000'")
        process.stdout.readline()
        self.places.kill("one")
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, relay.RESTARTING)
        process = self.connect("lost", "true")
        out, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (relay.UNREACHABLE, b"nobody knows it\n"))
        process = subprocess.run([sys.executable, "-ISs", RELAY, "connect", self.folder / "none", "one", "--", "true"],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(process.returncode, relay.UNREACHABLE)
        self.assertRegex(process.stderr, r"^relay: .*/none: .*No such file")

    def test_what_is_guarded_ends_with_who_started_it(self):
        script = f"'{sys.executable}' -ISs {RELAY} guard $$ /bin/sleep 1000 & echo $!; exec sleep 1000"
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
        guarded = int(process.stdout.readline())
        wait_until(lambda: os.readlink(f"/proc/{guarded}/exe").endswith("sleep"), "its start")
        process.kill()
        process.communicate()

        def gone():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                return pathlib.Path(f"/proc/{guarded}/stat").read_text().split()[2] == "Z"
            return True
        wait_until(gone, "the end of what was guarded")

    def test_a_folder_passes_without_what_is_left_out(self):
        folder, copy = self.folder / "run", self.folder / "copy"
        (folder / "nodes/chief/journal").mkdir(parents=True)
        (folder / "nodes/chief/journal/rows").write_text("many")
        (folder / "nodes/chief/log.txt").write_bytes(b"x" * 3_000_000)
        (folder / "summary.json").write_text("{}")
        self.assertEqual(fetch.unpack(fetch.pack(folder, ("journal",)), copy), 2)
        self.assertEqual(sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()),
                         ["nodes/chief/log.txt", "summary.json"])
        self.assertEqual((copy / "nodes/chief/log.txt").stat().st_size, 3_000_000)
        self.assertEqual(fetch.unpack(fetch.pack(self.folder / "none", ()), copy), 0)
        with self.assertRaises(fetch.tarfile.TarError):
            fetch.unpack(list(fetch.pack(folder, ()))[:1], self.folder / "torn")
        (folder / "nodes/socket").symlink_to("/outside")
        self.assertEqual(fetch.unpack(fetch.pack(folder, ()), copy), 3, "files and nothing else")


class Up(Folder):
    def setUp(self):
        super().setUp()
        (self.folder / "config.toml").write_text(CONFIG)
        (self.folder / "hosts.toml").write_text(HOSTS)
        via = self.folder / "places"
        via.write_text(f"#!/bin/sh\nexec '{sys.executable}' -ISs {RELAY} connect {self.folder}/socket \"$@\"\n")
        via.chmod(0o700)
        self.log = (self.folder / "log").open("wb")
        self.addCleanup(self.log.close)

    def up(self, *arguments):
        process = subprocess.Popen([TROUPE, "up", "hosts.toml", "config.toml", "--via", str(self.folder / "places"), *arguments],
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @property
    def text(self):
        return (self.folder / "log").read_text()

    def await_text(self, pattern, timeout_s=40):
        wait_until(lambda: re.search(pattern, self.text), lambda: f"{pattern} in:\n{self.text}", timeout_s)

    def end(self, process, code=0):
        try:
            self.assertEqual(process.wait(40), code, self.text)
        except subprocess.TimeoutExpired:
            self.fail(f"not ended:\n{self.text}")
        self.assert_nothing_runs()

    def assert_nothing_runs(self):
        def running():
            found = []
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    words = (process / "cmdline").read_bytes()
                    if os.readlink(process / "exe") == TROUPE and b"--run-dir=runs/" in words and \
                            os.readlink(process / "cwd") == str(self.folder):
                        found.append(words)
            return found
        wait_until(lambda: not running(), lambda: f"processes are left: {running()}", 5)

    def test_a_run_follows_its_places(self):
        run = self.up("--run-dir", "runs/a")
        self.await_text(r"chief \| .* node actors-1 has joined \(incarnation 1\)")
        self.assertNotIn("troupe.chief listens", self.text)
        address = (self.folder / "runs/a/chief.address").read_text()
        self.assertRegex(address, r"^127\.0\.0\.2:\d+\n$")

        self.places.kill("two")
        self.await_text(r"launcher \| TRP-E101 node actors-1 \(pid \d+\) died: exit code 254, its place is being restarted; "
                        r"trying again in 0\.1 s\n")
        time.sleep(1.2)
        self.places.up("two")
        self.await_text(r"chief \| .* node actors-1 has joined \(incarnation 2\)")
        self.assertRegex(self.text, r"actors-1 \| .* node actors-1 listens on 127\.0\.0\.5:")
        self.assertEqual(len(re.findall("node actors-1 .*trying again", self.text)), 1)

        # The chief, too: its folder is where it was.
        self.places.kill("chief")
        self.places.up("chief")
        self.await_text(r"launcher \| the chief has come back at another address: the other nodes are started anew\n")
        self.await_text(r"(?s)started anew.*node actors-0 has joined")
        self.await_text(r"(?s)started anew.*node actors-1 has joined")
        self.assertRegex((self.folder / "runs/a/chief.address").read_text(), r"^127\.0\.0\.6:\d+\n$")
        stopped = subprocess.run([TROUPE, "stop", "runs/a"], cwd=self.folder, capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(stopped.returncode, 0, stopped.stderr + self.text)
        self.end(run)
        self.assertIn("ended by       stop requested", self.text)

    def test_a_run_ends_well_without_a_place_that_stays_away(self):
        run = self.up("--run-dir", "runs/b", "--set", "max_minutes=0.1")
        self.await_text(r"chief \| .* node actors-1 has joined")
        self.places.kill("two")
        self.end(run)
        self.assertRegex(self.text, r"chief \|.* checkpoint \S+ is taken without actor-1\n")
        self.assertNotIn("TRP-E601", self.text)
        summary = json.loads((self.folder / "runs/b/summary.json").read_text())
        self.assertEqual(summary["stop_reason"], "max_minutes")
        self.assertTrue((self.folder / "runs/b/checkpoints/cut.json").exists())

    def test_a_chief_without_its_folder_does_not_begin_anew(self):
        run = self.up("--run-dir", "runs/c")
        self.await_text(r"chief \| .* node actors-1 has joined")
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self.places.kill("chief")
        self.places.up("chief", folder=elsewhere)
        self.end(run, 65)
        self.assertRegex(self.text, r"chief \| troupe: TRP-E165 the run directory runs/c is not on host 127\.0\.0\.5, and the "
                                    r"chief has led the run elsewhere: only on storage that all hosts share")

    def test_a_launcher_that_is_killed_leaves_nothing(self):
        run = self.up("--run-dir", "runs/d")
        self.await_text(r"chief \| .* node actors-1 has joined")
        run.kill()
        run.wait()
        self.assert_nothing_runs()

    def test_a_place_without_an_address_is_one_error(self):
        self.places._places["two"]._environment["TROUPE_HOST"] = "no host"
        run = self.up("--run-dir", "runs/e")
        self.await_text(r"actors-1 \| TROUPE_HOST is \"no host\", expected how other nodes reach this host")
        self.await_text(r"TRP-E103 node actors-1 .*exit code 78")
        run.send_signal(signal.SIGTERM)
        self.end(run)


if __name__ == "__main__":
    unittest.main(verbosity=2)
