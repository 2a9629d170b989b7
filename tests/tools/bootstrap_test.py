#!/usr/bin/env python3
"""Tests of tools/bootstrap.sh in a small tree of its own, with programs of the test's in the place of cmake, pip, sudo and
apt-get: what it says while it works and when something fails, and when it builds."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import pseudo_terminal

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
FOLDERS = ["core", "gpu", "apps"]
CMAKE = """
[ "$1" != --build ] && { mkdir -p build/release; touch build/release/build.ninja; exit; }
echo "$*" >>builds
for i in 1 2 3; do echo "[$((10 * i))/40] Building CXX object x$i.o"; sleep "${PAUSE_S:-0}"; done
mkdir -p build/release/bin
printf '#!/bin/sh\\n' >build/release/bin/troupe
chmod +x build/release/bin/troupe
"""
FAILING = """
[ "$1" != --build ] && { mkdir -p build/release; touch build/release/build.ninja; exit; }
cat <<'END'
[1/9] Building CXX object core/error.cpp.o
[2/9] Building CXX object core/table.cpp.o
FAILED: core/table.cpp.o
/usr/bin/c++ -I a very long command -c core/table.cpp
core/table.cpp:3:5: error: 'x' was not declared in this scope
[3/9] Building CXX object core/last.cpp.o
FAILED: core/last.cpp.o
/usr/bin/c++ another -c core/last.cpp
core/last.cpp:1:1: error: the second
ninja: build stopped: subcommand failed.
END
exit 1
"""


class BootstrapTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"
        self.cache = pathlib.Path(folder.name) / "cache"
        self.bin = pathlib.Path(folder.name) / "bin"
        (self.root / "tools").mkdir(parents=True)
        self.bin.mkdir()
        for name in "bootstrap.sh", "progress.sh":
            shutil.copy(TOOLS / name, self.root / "tools")
        (self.root / "tools/apt-packages.txt").write_text("base-files\n# For the tests alone:\n")
        (self.root / "CMakeLists.txt").write_text("".join(f"add_subdirectory({name})\n" for name in (*FOLDERS, "tests")))
        (self.root / "CMakePresets.json").touch()
        for name in (*FOLDERS, "tests", "cmake"):
            (self.root / name).mkdir()
            (self.root / name / "file").touch()
        for name in "mujoco-3.17.0", "uplot-1.6.31", "dm_control-1.0.50/suite/dog_assets", "onednn-3.2/lib", "onednn-3.2/include", \
                "cudnn-frontend-1.32.0/include":
            (self.cache / "troupe" / name).mkdir(parents=True)
        self.program("cmake", CMAKE)

    def program(self, name, text):
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{text}")
        path.chmod(0o755)

    def command(self, goal, around, variables):
        environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.cache), "HOME": "/nonexistent",
                       "TROUPE_PROGRESS_EVERY_S": "0.25"} | variables
        return [*around, "bash", str(self.root / "tools/bootstrap.sh"), goal], {
            "env": environment, "cwd": self.root, "stdin": subprocess.DEVNULL}

    def run_it(self, goal="program", around=(), **variables):
        command, options = self.command(goal, around, variables)
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)

    def fails(self, *expected, **options):
        """It ends with status 1 and says so in one line for each of the expected ones, and in no other."""
        done = self.run_it(**options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "^" + "".join(f"{line}\n" for line in expected) + "$")

    def builds(self):
        path = self.root / "builds"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def test_without_a_terminal_a_build_says_what_how_far_and_how_long_still(self):
        done = self.run_it(PAUSE_S="0.7")
        self.assertEqual(done.returncode, 0, done.stderr)
        line = r"^troupe: building the program: [123]0 of 40 steps \([257][05] %\) after 0:\d\d, about \d:\d\d still$"
        self.assertRegex(done.stderr, f"(?m){line}")
        self.assertEqual(done.stdout, "")

    def on_a_terminal(self, columns, term):
        """What it writes to a terminal of that width."""
        command, options = self.command("program", (), {"PAUSE_S": "0.7", "TERM": term})
        if (ends := pseudo_terminal.opened(columns)) is None:
            self.skipTest(pseudo_terminal.MISSING)
        ours, its = ends
        running = subprocess.Popen(command, stdout=its, stderr=its, **options)
        os.close(its)
        written = b""
        while chunk := pseudo_terminal.read(ours):
            written += chunk
        os.close(ours)
        self.assertEqual(running.wait(timeout=60), 0, written)
        return written.decode()

    def test_on_a_terminal_a_build_is_one_line_within_its_width(self):
        written = self.on_a_terminal(40, "xterm")
        drawn = [line.removeprefix("\r") for line in written.split("\x1b[K") if line.startswith("\r")]
        self.assertIn("troupe: building the program: 10 of 40 "[:39], drawn)
        self.assertEqual(drawn[-1], "")
        self.assertLess(max(map(len, drawn)), 40)
        self.assertNotIn("\x1b", self.on_a_terminal(40, "dumb"))

    def test_what_is_built_is_not_built_again_until_a_file_of_the_program_changes(self):
        for _ in range(2):
            self.assertEqual(self.run_it().returncode, 0)
        self.assertEqual(self.builds(), 1)
        (self.root / "tests/file").touch()
        self.assertEqual(self.run_it().stderr, "")
        for number, name in enumerate((*FOLDERS, "cmake"), start=2):
            with self.subTest(name):
                (self.root / name / "file").touch()
                self.run_it()
                self.assertEqual(self.builds(), number)

    def test_a_compiler_that_fails_is_shown_once_and_without_its_command(self):
        self.program("cmake", FAILING)
        self.fails("troupe: configuring", "troupe: building the program", r"FAILED: core/table.cpp.o",
                   "core/table.cpp:3:5: error: 'x' was not declared in this scope",
                   r"troupe: building the program failed \(log: .*/build.log\)")

    def test_what_ends_without_a_word_is_shown_as_it_ended(self):
        self.program("cmake", FAILING.split("cat")[0] + "seq 30; exit 1")
        self.fails("troupe: configuring", "troupe: building the program", *map(str, range(21, 31)),
                   r"troupe: building the program failed \(log: .*/build.log\)")

    def test_a_configuration_that_fails_shows_its_errors_alone(self):
        self.program("cmake", "echo '-- found'; echo 'CMake Error at x:3:'; echo '  no CAF'; exit 1")
        self.fails("troupe: configuring", "CMake Error at x:3:", "  no CAF", r"troupe: configuring failed \(log: .*\)")

    def test_without_a_network_the_package_is_named(self):
        (self.cache / "troupe/mujoco-3.17.0").rmdir()
        done = self.run_it(PIP_NO_INDEX="1", PIP_FIND_LINKS="")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?m)\Atroupe: fetching mujoco==3.17.0\n(troupe: fetching mujoco==3.17.0: 0:\d\d so "
                         r"far\n)*troupe: cannot fetch the package mujoco==3.17.0; is there a network\? log: .*\n\Z")
        self.assertEqual(list((self.cache / "troupe").glob(".fetch*")), [])

    def test_another_kind_of_processor_is_refused_at_once(self):
        self.program("uname", "echo riscv64")
        self.fails("troupe: Troupe is for x86-64 and aarch64, and this machine is riscv64: there is no MuJoCo for it")

    def test_aarch64_does_without_onednn(self):
        self.program("uname", "echo aarch64")
        shutil.rmtree(self.cache / "troupe/onednn-3.2")
        self.assertEqual(self.run_it("fetched").returncode, 0)

    def test_who_may_not_install_packages_is_told_who_installs_them(self):
        (self.root / "tools/apt-packages.txt").write_text("no-such-one\n# For the tests alone:\nno-such-two=1.2 # why\n")
        for sudo in "exit 1", "echo called >>sudo-called; exit 1":
            self.program("sudo", sudo)
            self.program("id", 'case $1 in -u) echo 1000 ;; *) echo alice ;; esac')
            self.fails("troupe: Debian packages are missing, and this user is neither root nor may use sudo; an administrator "
                       "installs them once for all users: apt-get install no-such-one")
            self.fails("troupe: Debian packages are missing, .*: apt-get install no-such-one no-such-two=1.2\\*",
                       goal="tests")

    def test_packages_of_the_tests_alone_do_not_hold_up_who_may_not_install_them(self):
        (self.root / "tools/apt-packages.txt").write_text("base-files\n# For the tests alone:\nno-such-two\n")
        self.program("sudo", "exit 1")
        self.program("id", 'case $1 in -u) echo 1000 ;; *) echo alice ;; esac')
        shutil.copy("/bin/true", self.root / "tools/python_env.sh")
        done = self.run_it("tests")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "^troupe: tests that need these Debian packages are skipped, as this user cannot "
                         "install them: no-such-two\ntroupe: configuring\ntroupe: building everything\n")

    def test_packages_are_installed_with_their_progress(self):
        (self.root / "tools/apt-packages.txt").write_text("no-such-one\n")
        self.program("id", "echo 0")
        self.program("apt-get", """
          case "$*" in *update*) exit ;; esac
          [ -e tried ] || { touch tried; echo "E: no lists"; exit 100; }
          echo "0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded."
          echo "Get:1 http://host a amd64 1"; echo "Get:2 http://host b amd64 1"; echo "Unpacking a (1) ..."; sleep 1.5
          echo "Setting up a (1) ..." """)
        done = self.run_it("fetched")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "^troupe: installing 1 Debian packages: no-such-one\n"
                         r"(.*\n)*troupe: installing Debian packages: 3 of 6 steps \(50 %\) after 0:\d\d, about 0:\d\d still\n")

    def test_an_administrator_installs_all_packages_for_all_users(self):
        (self.root / "tools/apt-packages.txt").write_text("no-such-one\n# For the tests alone:\nno-such-two=1.2\n")
        shutil.rmtree(self.cache / "troupe")
        self.program("id", "echo 0")
        self.program("apt-get", 'echo "$*" >>apt')
        self.assertEqual(self.run_it("packages").stderr,
                         "troupe: installing 2 Debian packages: no-such-one no-such-two=1.2*\n")
        self.assertRegex((self.root / "apt").read_text(), r"install no-such-one no-such-two=1.2\*\n$")
        self.assertEqual(sorted(os.listdir(self.cache / "troupe")), ["apt.log", "bootstrap.lock"])
        self.assertFalse((self.root / "build").exists())

    def test_a_folder_of_somebody_elses_is_one_clear_line(self):
        # Root may write everywhere, so it becomes somebody else.
        around = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
        if subprocess.run([*around, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this root may not become somebody else (CAP_SETUID)")
        self.root.parent.chmod(0o755)
        for path in self.cache / "troupe", self.cache / "troupe/bootstrap.lock", self.root / "build/release":
            with self.subTest(path.name):
                path.touch() if path.name.endswith("lock") else path.mkdir(parents=True, exist_ok=True)
                path.chmod(0o555)
                self.fails(f"troupe: .* cannot write {path}, which belongs to .*chown it if ./troupe was run there with sudo",
                           around=around)
                path.chmod(0o777)

    def test_who_waits_for_another_says_so(self):
        (self.root / "build/release").mkdir(parents=True)
        command, options = self.command("program", (), {})
        with open(self.root / "build/release/.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
            self.assertEqual(waiting.stderr.readline(),
                             f"troupe: waiting for another ./troupe, which is at work in {self.root}/build/release\n")
        _, said = waiting.communicate(timeout=60)
        self.assertEqual(waiting.returncode, 0, said)

    def test_no_process_and_no_pipe_outlives_it(self):
        began = time.monotonic()
        done = self.run_it(TROUPE_PROGRESS_EVERY_S="30")  # capture_output waits for the last holder of its pipes
        self.assertEqual(done.returncode, 0)
        self.assertLess(time.monotonic() - began, 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
