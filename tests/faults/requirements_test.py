#!/usr/bin/env python3
"""Tests that run on hosts find out first whether there can be any: in a container without capabilities, in a chroot whose
/ is no mount point, for an ordinary user and without the tools they are skipped with the reason, and leave nothing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness import network, requirements  # noqa: E402
from harness.requirements import NEEDS, SKIPPED, reason_to_skip  # noqa: E402
from harness.testing import main, needs  # noqa: E402

SCRIPTS = {  # one test of each kind that runs on hosts, from the top of the tree
    "network": ["tests/faults/network_test.py", "HostTest.test_hosts_reach_each_other_at_their_own_addresses"],
    "runner": ["tests/faults/run_scenarios_test.py", "TrialTest.test_a_good_run_passes_and_is_measured"],
    "scenario": ["tests/faults/run_scenarios.py", "F8_partition", "--out", "/nonexistent", "--program", "/nonexistent"],
    "deploy.hosts": ["tests/deploy/hosts_test.py"],
    "deploy.slurm": ["tests/deploy/slurm_test.py", "run"],
    "deploy.demo": ["deploy/demo.sh", "--short"],
}
NO_CAPABILITIES = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def run(argv, **options):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60, check=False, **options)


class SkipTest(unittest.TestCase):
    def expect_skipped(self, around, reason, tree=ROOT):
        """Every script, run with `around` before it, is skipped with the reason and leaves nothing."""
        for kind, (script, *arguments) in SCRIPTS.items():
            with self.subTest(kind), tempfile.TemporaryDirectory() as temporary:
                os.chmod(temporary, 0o777)
                interpreter = [] if script.endswith(".sh") else ["/usr/bin/python3", "-B"]
                environment = {k: v for k, v in os.environ.items() if k != "TROUPE_ISOLATED"} | {"TMPDIR": temporary}
                done = run([*around, *interpreter, f"{tree}/{script}", *arguments], env=environment)
                self.assertEqual(done.returncode, SKIPPED, done.stdout)
                self.assertRegex(done.stdout, f"SKIPPED .*: needs {reason}")
                self.assertNotRegex(done.stdout, "Traceback|Error|FAIL")
                self.assertEqual(os.listdir(temporary), [])

    @needs("root", "setpriv")
    def test_without_capabilities(self):
        self.expect_skipped(NO_CAPABILITIES, r"hosts: .*Operation not permitted \(.*CAP_SYS_ADMIN")
        self.expect_skipped(["setpriv", "--bounding-set", "-net_admin"], r"hosts: .*Operation not permitted \(")

    @needs("root", "hosts")
    def test_who_finds_out_leaves_nothing(self):
        self.assertNotIn("host", os.listdir(network.NETNS) if network.NETNS.is_dir() else [])

    @needs("root", "setpriv")
    def test_as_an_ordinary_user_who_may_read_the_tree(self):
        if run([*NOBODY, "cat", str(HERE / "probe.py")]).returncode != 0:
            self.skipTest(f"an ordinary user may not read {HERE}")
        self.expect_skipped(NOBODY, "root: not root")

    def chroot(self, first):
        """Words before a command that run it in another root directory; `first`: a command, with $root for the folder."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name) / "root"
        script = f"set -e; root=$1; shift; mount -t tmpfs none $(dirname $root); mkdir $root; {first}\n"
        for name in "usr", "etc", "proc", "dev", "sys", "run", "tmp":
            script += f"mkdir $root/{name}; mount --rbind /{name} $root/{name}\n"
        for name in "bin", "sbin", "lib", "lib64":  # as Debian has them since 12
            script += f"ln -s usr/{name} $root/{name}\n"
        script += f"mkdir $root/tree; mount --bind {ROOT} $root/tree\n"
        return ["unshare", "--mount", "sh", "-c", script + 'exec chroot "$root" "$@"', "sh", str(root)]

    @needs("root", "hosts")
    def test_in_a_chroot_whose_root_is_no_mount_point(self):
        self.expect_skipped(self.chroot(":"), r"hosts: unshare: .*Invalid argument \(in a chroot, / must be a mount point",
                            tree="/tree")

    @needs("root", "hosts")
    def test_in_a_chroot_whose_root_is_a_mount_point_hosts_can_be_made(self):
        name, test = SCRIPTS["network"]
        done = run([*self.chroot("mount --bind $root $root"), "/usr/bin/python3", "-B", f"/tree/{name}", test])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, "(?m)^OK$")

    def test_a_tool_that_is_missing_has_a_name(self):
        with mock.patch.dict(NEEDS, {"tool": lambda: requirements._tools("sh", "no-such-tool", "neither")}):
            self.assertEqual(reason_to_skip(["tool"]), "needs tool: no no-such-tool, neither")

    def test_root_and_hosts_are_asked_first_and_once(self):
        asked = []

        def need(name, missing):
            return lambda: (asked.append(name), missing)[1]

        fakes = {"root": need("root", False), "hosts": need("hosts", None), "a": need("a", "none")}
        requirements._missing.cache_clear()
        self.addCleanup(requirements._missing.cache_clear)
        with mock.patch.dict(NEEDS, fakes):
            for _ in range(2):
                self.assertEqual(reason_to_skip(["a", "hosts", "root"]), "needs a: none")
        self.assertEqual(asked, ["root", "hosts", "a"])

    def test_the_command_that_failed_says_why(self):
        self.assertIsNone(requirements._try(["sh", "-c", "exit 0"]))
        self.assertEqual(requirements._try(["sh", "-c", "echo warned; echo tool: why >&2; exit 1"]), "tool: why")
        self.assertEqual(requirements._try(["sh", "-c", "exit 3"]), "sh: exit status 3")

    def test_names_are_listed_without_asking_the_machine(self):
        listed = run([sys.executable, "-B", str(HERE / "network_test.py"), "--list"], env={"PATH": "/nonexistent"})
        self.assertIn("RateTest.test_a_host_sends_no_faster_than_its_rate\n", listed.stdout)


class CleanUpTest(unittest.TestCase):
    """A network that could not be made is closed without an error of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patches = mock.patch.multiple(network, LOCKS=pathlib.Path(folder.name) / "locks",
                                      NETNS=pathlib.Path(folder.name) / "netns")
        patches.start()
        self.addCleanup(patches.stop)

    def test_closing_twice_is_closing_once(self):
        made = network.Network()
        other = os.open("/dev/null", os.O_RDONLY)  # may get the number of a descriptor that is closed too often
        made.close()
        made.close()
        self.assertEqual(list(network.LOCKS.iterdir()), [])
        os.close(other)

    def test_the_error_that_matters_is_the_one_that_is_raised(self):
        def failing(*argv, **_):
            raise network.NetworkError(f"{argv[0]}: Operation not permitted")

        with mock.patch.object(network, "tool", failing):
            made = network.Network()
            with self.assertRaisesRegex(network.NetworkError, "^ip: Operation not permitted$"):
                made.__enter__()
            made.close()
        self.assertEqual(list(network.LOCKS.iterdir()), [])

    def test_a_host_that_does_not_start_leaves_nothing(self):
        made = network.Network()
        with mock.patch.object(network, "tool", lambda *argv, **_: ""), \
                mock.patch.object(network.subprocess, "Popen", side_effect=FileNotFoundError("setpriv")):
            with self.assertRaisesRegex(FileNotFoundError, "setpriv"):
                made.add_host("a")
            made.close()
        self.assertEqual(list(network.LOCKS.iterdir()), [])

    def test_what_cannot_be_removed_is_said_and_left_for_the_next(self):
        made = network.Network()
        network.NETNS.mkdir()
        (network.NETNS / made.run_name.of("switch")).touch()
        failing = mock.Mock(side_effect=network.NetworkError("ip: busy"))
        with mock.patch.object(network, "tool", failing), mock.patch("sys.stderr") as said:
            made.close()
            made.close()
        self.assertIn("ip: busy", "".join(call.args[0] for call in said.write.call_args_list))
        self.assertEqual(len(list(network.LOCKS.iterdir())), 1)
        with mock.patch.object(network, "tool", lambda *argv, **_: ""):
            self.assertEqual(network.remove_leftovers(), 1)
        self.assertEqual(list(network.LOCKS.iterdir()), [])

    def test_two_who_clean_at_once_are_not_in_each_others_way(self):
        network.LOCKS.mkdir()
        path = network.LOCKS / "abc"
        path.touch()
        real = os.open

        def opened(name, *arguments, **options):
            file = real(name, *arguments, **options)
            path.unlink(missing_ok=True)  # the other was faster
            return file

        with mock.patch.object(network.os, "open", opened), mock.patch.object(network, "remove_run") as removed:
            self.assertEqual(network.remove_leftovers(), 0)
        removed.assert_not_called()
        path.touch()
        with mock.patch.object(network.os, "open", side_effect=FileNotFoundError()):
            self.assertEqual(network.remove_leftovers(), 0)


if __name__ == "__main__":
    main()
