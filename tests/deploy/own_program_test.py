#!/usr/bin/env python3
"""Programs with registries of their own over two hosts in network namespaces of this machine, by a cluster file: a
topology with messages of its own, an algorithm and a model; and a node of the second host that joins with several
instances. Exit status 77 where hosts cannot be made."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("TROUPE_OWN_PROGRAM", str(ROOT / "build/release/bin/hello_topology"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import isolation  # noqa: E402

ADDRESSES = {"n1": "10.9.7.1", "n2": "10.9.7.2"}
CLUSTER = """run = "own"
[[nodes]]
name = "chief"
host = "10.9.7.1"
port = 7600
roles = {{ metrics = [0], {chief} }}
[[nodes]]
name = "{other}"
host = "10.9.7.2"
port = 7600
roles = {{ {roles} }}
"""


def sh(command):
    subprocess.run(command.split(), check=True, capture_output=True, timeout=30)


class OwnProgram(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-own-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        sh("mount -t tmpfs tmpfs /run")  # ip keeps the names of namespaces there
        for name in ADDRESSES:
            sh(f"ip netns add {name}")
        sh("ip link add v1 netns n1 type veth peer name v2 netns n2")
        for index, (name, address) in enumerate(ADDRESSES.items(), 1):
            sh(f"ip -n {name} link set lo up")
            sh(f"ip -n {name} address add {address}/24 dev v{index}")
            sh(f"ip -n {name} link set v{index} up")
        for name in ("topology", "agent", "replica"):
            shutil.copy(ROOT / f"examples/hello_{name}.toml", cls.folder)
        (cls.folder / "cluster.toml").write_text(
            CLUSTER.format(chief="display = [0]", other="sensors", roles="thermometer = [0, 1]"))

    def on(self, host, name, *arguments, program=PROGRAM):
        with open(self.folder / f"{name}.txt", "wb") as log:
            return subprocess.Popen(["ip", "netns", "exec", host, program, *arguments], cwd=self.folder, stdout=log,
                                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def text(self, name):
        return (self.folder / f"{name}.txt").read_text(errors="replace")

    def await_text(self, name, pattern, timeout_s=60):
        end = time.monotonic() + timeout_s
        while not re.search(pattern, self.text(name)):
            self.assertLess(time.monotonic(), end, f"{pattern} in:\n{self.text(name)}")
            time.sleep(0.1)

    def both(self, run, measurements):
        common = ["node", "hello_topology.toml", "--set", f"roles.display.measurements={measurements}", "--cluster",
                  "cluster.toml", "--run-dir", run, "--name"]
        return [self.on("n1", "chief", *common, "chief"), self.on("n2", "sensors", *common, "sensors")]

    def test_its_topology_runs_over_hosts(self):
        nodes = self.both("a", 20000)
        for node in nodes:
            self.assertEqual(node.wait(90), 0, self.text("chief") + self.text("sensors"))
        self.assertRegex(self.text("chief"), r"mean of 20000 measurements: 2[01]\.\d\d degrees\n")
        self.assertRegex(self.text("chief"), r"ended by +roles done\n")
        self.assertNotRegex(self.text("chief") + self.text("sensors"), r"TRP-[ES]")

    def over_hosts(self, example, cluster, *settings):
        """What the chief of the example's run has said, whose other node is on the other host."""
        (self.folder / f"{example}_cluster.toml").write_text(CLUSTER.format(**cluster))
        common = ["node", f"hello_{example}.toml", "--cluster", f"{example}_cluster.toml", "--run-dir", example, *settings,
                  "--name"]
        program = str(pathlib.Path(PROGRAM).with_name(f"hello_{example}"))
        nodes = [self.on(host, name, *common, name, program=program)
                 for host, name in (("n1", "chief"), ("n2", cluster["other"]))]
        for node in nodes:
            self.assertEqual(node.wait(90), 0, self.text("chief") + self.text(cluster["other"]))
        self.assertNotRegex(self.text("chief") + self.text(cluster["other"]), r"TRP-[ES]")
        return self.text("chief")

    def test_an_algorithm_of_its_own_learns_over_hosts(self):
        said = self.over_hosts("agent", {"chief": "replay = [0], learner = [0], parameters = [0], evaluator = [0]",
                                         "other": "players", "roles": "actor = [0]"})
        self.assertRegex(said, r"final return +(19|20)\.\d")

    def test_a_model_of_its_own_is_trained_over_hosts(self):
        said = self.over_hosts("replica", {"chief": "spirals = [0]", "other": "more", "roles": "spirals = [1]"},
                               "--set", "replicas.spirals.replicator=multi_worker", "--set", "replicas.spirals.count=2")
        self.assertRegex(said, r"spirals +300 steps, loss 0\.[0-4]")

    def test_a_node_of_another_host_joins_with_several_instances(self):
        nodes = self.both("b", 1000000000)
        self.await_text("chief", "node sensors has joined")
        extra = self.on("n2", "extra", "node", "--join", "b", "--name", "extra", "--host", "10.9.7.2", "--port", "7700",
                        "--role", "thermometer", "--instances", "3")
        self.await_text("chief", "node extra has joined")
        end = time.monotonic() + 60
        while True:
            said = subprocess.run(["ip", "netns", "exec", "n1", PROGRAM, "status", "b"], cwd=self.folder, text=True,
                                  capture_output=True, check=False).stdout
            if all(re.search(rf"thermometer-{index} +extra +up", said) for index in (2, 3, 4)):
                break
            self.assertLess(time.monotonic(), end, said)
            time.sleep(0.2)
        self.assertIn("message Celsius: opaque", said)
        stopped = subprocess.run(["ip", "netns", "exec", "n1", PROGRAM, "stop", "b"], cwd=self.folder, check=False)
        self.assertEqual(stopped.returncode, 0)
        for node in [*nodes, extra]:
            self.assertEqual(node.wait(90), 0, self.text("chief") + self.text("sensors") + self.text("extra"))


if __name__ == "__main__":
    isolation.enter_namespaces("OwnProgram", "root", "hosts")
    unittest.main(verbosity=2)
