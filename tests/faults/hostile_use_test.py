#!/usr/bin/env python3
"""What strangers at the ports, few descriptors, namespaces, a changed mode of the run directory and a second chief do
to a run of the real program. Needs no hosts of its own. The program's path comes in the environment variable
TROUPE_PROGRAM.
"""

import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness.requirements import OWN_PROCESSES  # noqa: E402
from harness.small_run import CONFIG, PATIENCE_S, PROGRAM, SmallRun, descendants  # noqa: E402
from harness.testing import main, needs  # noqa: E402

HALF_OPEN = 900  # against each listener, four times over
CROWDS = 4
REJOIN_S = 2.0
# The first bytes of a TLS hello whose rest never comes.
HALF_A_HELLO = bytes.fromhex("16030102000100" "01fc0303")


class Crowd:
    """Strangers who connect and say nothing, or half a word: as fast as they can until CROWDS times `count` have come to
    each target, then 700 a second in place of the oldest. Faster, they would be a test of who gets the processors."""

    def __init__(self, targets, count):
        self.targets, self.count = targets, count
        self.made = 0
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.come, args=(target, number)) for target in targets
                        for number in range(2)]
        for thread in self.threads:
            thread.start()

    def come(self, target, number):
        sockets = []
        while not self.over.is_set():
            try:
                one = socket.create_connection(target, timeout=5)
                if number == 1:
                    one.send(HALF_A_HELLO)
                sockets.append(one)
                self.made += 1
            except OSError:
                time.sleep(0.01)
            if self.made > CROWDS * self.count * len(self.targets):
                time.sleep(0.02)
            while len(sockets) > self.count // 2:
                sockets.pop(0).close()
        for one in sockets:
            one.close()

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class HostileUseTest(SmallRun):
    def node(self, name):
        """The process of a node, and its incarnation."""
        for pid in descendants(self.launcher.pid):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--name" in words and words[words.index(b"--name") + 1] == name.encode():
                return pid
        return None

    def kill_and_time(self, name):
        """Seconds from the death of a node's process until its next one is up."""
        [before] = [one for one in self.status()["nodes"] if one["name"] == name]
        os.kill(self.node(name), signal.SIGKILL)
        start = time.monotonic()

        def back():
            status = self.status()
            return status and any(one["name"] == name and one["state"] == "up" and
                                  one["incarnation"] > before["incarnation"] for one in status["nodes"])

        self.wait_for(f"{name} to be back", back)
        return time.monotonic() - start

    def test_half_open_connections_do_not_keep_a_killed_actor_out(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.start("--processes", "--set", "placement.actors.nodes=2")
        status = self.wait_for("all instances up", self.all_up)
        targets = [(one["address"].rsplit(":", 1)[0], int(one["address"].rsplit(":", 1)[1]))
                   for one in status["nodes"]]
        count = min(HALF_OPEN, (hard - 200) // len(targets))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count * len(targets) + 200)), hard))
        alone = min(self.kill_and_time("actors-0") for _ in range(2))
        crowd = Crowd(targets, count)
        try:
            while crowd.made < CROWDS * count * len(targets):
                time.sleep(0.1)
            beside = [self.kill_and_time("actors-0") for _ in range(3)]
        finally:
            crowd.end()
        print(f"back after {alone:.2f} s alone, {beside} s beside {count} half-open connections at each of "
              f"{len(targets)} listeners, {crowd.made} made")
        # On a machine that is slow by itself, and on which the crowd takes a processor, in proportion.
        self.assertLess(sorted(beside)[1], max(REJOIN_S, 3 * alone))
        self.assertEqual(self.wait_for("all up", self.all_up)["term"], 1)

    def open_to_the_group(self):
        """What `chmod -R g+rwX` and Kubernetes' fsGroup do, while the run writes and replaces files."""
        for folder, _, names in os.walk(self.run_folder):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                try:
                    os.chmod(path, os.stat(path).st_mode | (0o070 if path == folder else 0o060))
                except FileNotFoundError:
                    pass

    def test_a_chief_comes_back_in_a_run_directory_that_was_opened_to_a_group(self):
        self.start("--processes")
        self.wait_for("all instances up", self.all_up)
        self.open_to_the_group()
        os.kill(self.node("chief"), signal.SIGKILL)
        self.wait_for("the next chief", lambda: (status := self.all_up()) and status["term"] == 2)
        # By the chief, or by one of the questions for the status.
        self.assertEqual((self.run_folder / "security/authority.key").stat().st_mode & 0o777, 0o600)

    def test_a_second_start_in_the_directory_of_a_run_that_sleeps_changes_nothing(self):
        self.start("--processes")
        before = self.wait_for("all instances up", self.all_up)
        asleep = descendants(self.launcher.pid)
        for pid in asleep:
            os.kill(pid, signal.SIGSTOP)
        try:
            files = {name: (self.run_folder / name).read_bytes()
                     for name in ("cluster.toml", "config.toml", "chief.json", "chief.address")}
            second = subprocess.run([PROGRAM, "train", str(self.folder / "small.toml"), "--processes", "--run-dir",
                                     str(self.run_folder)],
                                    capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(second.returncode, 1, second.stdout + second.stderr)
            self.assertIn("another process trains in this directory", second.stdout + second.stderr)
            self.assertEqual(second.stdout.count("\n") + second.stderr.count("\n"), 1, second.stdout + second.stderr)
            for name, content in files.items():
                self.assertEqual((self.run_folder / name).read_bytes(), content, name)
        finally:
            for pid in reversed(asleep):
                os.kill(pid, signal.SIGCONT)

        def goes_on():
            status = self.all_up()
            return status and status["versions"]["learner"] > before["versions"]["learner"]

        self.wait_for("the first to go on", goes_on)

    def test_a_learner_with_few_descriptors_goes_on_while_its_peer_is_stopped_again_and_again(self):
        self.start("--processes", "--set", "learner.count=2", "--set", "placement.learner.nodes=2")

        def trains(more_than=0):
            status = self.status()
            up = status and all(one["state"] == "up" for one in status["nodes"] + status["instances"])
            steps = [status["versions"].get(name, 0) for name in ("learner-0", "learner-1", "parameters")] if up else [0]
            return status if min(steps) > more_than else None

        status = self.wait_for("a group of two", trains)
        poor = self.node("learner-0")
        for seconds in (0.3, 3.0, 0.3, 3.0):  # too short to be taken for dead, and long enough
            resource.prlimit(poor, resource.RLIMIT_NOFILE, (40, 40))
            peer = self.node("learner-1")
            os.kill(peer, signal.SIGSTOP)
            time.sleep(seconds)
            if self.node("learner-1") == peer:  # else its launcher has ended it
                os.kill(peer, signal.SIGCONT)
            status = self.wait_for("both to go on", lambda: trains(status["versions"]["parameters"]))
        self.assertEqual(self.node("learner-0"), poor)

    @needs("own_processes")
    def test_a_learner_of_a_group_trains_in_namespaces_of_its_own(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder, self.log = pathlib.Path(folder.name, "run"), pathlib.Path(folder.name, "log.txt")
        config = CONFIG.replace("max_env_steps = 0", "max_env_steps = 3000")
        pathlib.Path(folder.name, "small.toml").write_text(config + "count = 2\n", encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = [one.getsockname()[1], other.getsockname()[1]]
        nodes = [("chief", "metrics = [0], replay = [0], learner = [0], parameters = [0], evaluator = [0], actor = [0, 1]"),
                 ("apart", "learner = [1]")]
        pathlib.Path(folder.name, "cluster.toml").write_text('run = "apart"\n' + "".join(
            f'[[nodes]]\nname = "{name}"\nhost = "127.0.0.1"\nport = {port}\nroles = {{ {roles} }}\n'
            for (name, roles), port in zip(nodes, ports)), encoding="utf-8")

        def start(name, *before):
            with open(self.log, "ab") as log:
                process = subprocess.Popen([*before, PROGRAM, "node", "small.toml", "--cluster", "cluster.toml", "--name",
                                            name, "--run-dir", "run"], cwd=folder.name, stdout=log, stderr=log)
            self.addCleanup(lambda: (process.kill(), process.wait()))
            return process

        both = [start("chief"), start("apart", *OWN_PROCESSES)]
        for process in both:
            try:
                self.assertEqual(process.wait(PATIENCE_S), 0, self.log.read_text(errors="replace"))
            except subprocess.TimeoutExpired:
                self.fail(self.log.read_text(errors="replace")[-4000:])
        # Said once by each side: frames that could have gone through memory go over TLS.
        self.assertIn(self.log.read_text().count("TRP-W180"), (1, 2))
        self.assertIn('"env_steps": 3000,', (self.run_folder / "summary.json").read_text())


if __name__ == "__main__":
    main()
