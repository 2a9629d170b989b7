#!/usr/bin/env python3
"""`troupe up` over a real ssh, a node that joins by token, and the commands of deploy/kubernetes/: four hosts in network
namespaces of this machine, each with an sshd, an address, a name and a home folder of its own. Exit status 77 where sshd
is missing or hosts cannot be made."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE_PROGRAM", str(ROOT / "build/release/bin/troupe"))
OWN_PROGRAM = os.environ.get("TROUPE_OWN_PROGRAM", str(ROOT / "build/release/bin/hello_topology"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import isolation  # noqa: E402

NAMES = ["n1", "n2", "n3", "n4"]
ADDRESSES = {name: f"10.9.8.{10 + index}" for index, name in enumerate(NAMES)}
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
"""


def sh(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, **options).stdout


def wait_until(condition, what, timeout_s=40):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(0.05)


def processes_of_the_program():
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "exe") in (TROUPE, OWN_PROGRAM):
                found.append(int(process.name))
    return found


class Hosts:
    """`here` is where the user sits; the others are reached by ssh alone."""

    def __init__(self, folder):
        self.folder = folder
        self.here = folder / "here"

    def __enter__(self):
        self.folder.chmod(0o755)
        sh("mount", "-t", "tmpfs", "tmpfs", "/run")
        pathlib.Path("/run/sshd").mkdir()
        hosts = self.folder / "hosts"
        # The second names are those that a headless Service gives to pods.
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name} cartpole-{index}.cartpole\n" for
                                                           index, (name, address) in enumerate(ADDRESSES.items())))
        sh("mount", "--bind", str(hosts), "/etc/hosts")
        for command in ("ip link set lo up", "ip link add br0 type bridge", "ip address add 10.9.8.1/24 dev br0",
                        "ip link set br0 up"):
            sh(*command.split())
        (self.here / ".ssh").mkdir(parents=True, mode=0o700)
        for key in self.here / ".ssh/id_ed25519", self.folder / "host_key":
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        public = (self.folder / "host_key.pub").read_text()
        (self.here / ".ssh/known_hosts").write_text(f"{','.join(NAMES)} {public}")
        for index, (name, address) in enumerate(ADDRESSES.items()):
            self._add_host(index, name, address, hosts.read_text())
        sh("mount", "--bind", str(self._passwd("here")), "/etc/passwd")  # ssh looks for its keys where this says
        os.environ["HOME"] = str(self.here)
        for name in NAMES:
            wait_until(lambda: subprocess.run(["ssh", name, "true"], check=False, capture_output=True).returncode == 0,
                       lambda: (self.folder / f"{name}.log").read_text())
        return self

    def __exit__(self, *_):
        pass  # with this process all others end

    def home(self, name):
        return self.folder / name

    def _passwd(self, name):
        entry = re.compile(r"^(root:[^\n]*):[^:\n]*:([^:\n]*)$", re.MULTILINE)
        text = entry.sub(rf"\1:{self.folder / name}:\2", pathlib.Path("/etc/passwd").read_text())
        file = self.folder / f"{name}.passwd"
        file.write_text(text)
        return file

    def _add_host(self, index, name, address, hosts):
        self.home(name).mkdir()
        configuration = self.folder / f"{name}.sshd"
        configuration.write_text(f"HostKey {self.folder}/host_key\nListenAddress {address}\nPidFile none\nUsePAM no\n"
                                 f"AuthorizedKeysFile {self.here}/.ssh/id_ed25519.pub\nStrictModes no\n"
                                 f"PermitRootLogin yes\nMaxStartups 100\nSubsystem sftp internal-sftp\n")
        for command in (f"ip netns add {name}", f"ip link add v{index} type veth peer eth0 netns {name}",
                        f"ip link set v{index} master br0 up", f"ip -n {name} link set lo up",
                        f"ip -n {name} address add {address}/24 dev eth0", f"ip -n {name} link set eth0 up"):
            sh(*command.split())
        own_hosts = self.folder / f"{name}.hosts"
        own_hosts.write_text(hosts.replace(address, "127.0.1.1"))  # as Debian's installer does
        script = (f"mount --bind {self._passwd(name)} /etc/passwd && mount --bind {own_hosts} /etc/hosts && "
                  f"hostname {name} && exec /usr/sbin/sshd -D -e -f {configuration}")
        with open(self.folder / f"{name}.log", "wb") as log:
            subprocess.Popen(["ip", "netns", "exec", name, "unshare", "--mount", "--uts", "sh", "-c", script],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class Started:
    """A command that goes on; what it has said so far is in `text`."""

    def __init__(self, folder, *command):
        self._log = tempfile.NamedTemporaryFile("wb", dir=folder)
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=self._log,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def text(self):
        return pathlib.Path(self._log.name).read_text(errors="replace")

    def await_text(self, pattern, times=1):
        def said():
            return len(re.findall(pattern, self.text)) >= times
        wait_until(lambda: said() or self.process.poll() is not None, lambda: f"{pattern} in:\n{self.text}")
        assert said(), f"it ended without saying {pattern}:\n{self.text}"

    def ctrl_c(self):
        os.killpg(self.process.pid, signal.SIGINT)  # as a terminal does: to all in the foreground

    def end(self, timeout_s=60):
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended within {timeout_s} s:\n{self.text}") from None


class Up(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="troupe-hosts-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.hosts = cls.enterClassContext(Hosts(cls.folder))
        cls.here = cls.hosts.here
        (cls.here / "config.toml").write_text(CONFIG)
        (cls.here / "hosts.toml").write_text('hosts = ["n1", "n2", "n3"]\n')

    def tearDown(self):  # what a test that failed has left must not fail the next
        for pid in processes_of_the_program():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assert_nothing_runs()

    def up(self, *arguments, hosts="hosts.toml"):
        return Started(self.here, TROUPE, "up", hosts, "config.toml", *arguments)

    def troupe(self, *arguments):
        done = subprocess.run([TROUPE, *arguments], cwd=self.here, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def assert_nothing_runs(self):
        wait_until(lambda: not processes_of_the_program(), lambda: f"processes are left: {processes_of_the_program()}", 10)

    def test_a_run_trains_to_its_end_on_its_hosts(self):
        run = self.up("--run-dir", "runs/a", "--set", "max_env_steps=3000")
        self.assertEqual(run.end(), 0, run.text)
        for line in run.text.splitlines():
            self.assertRegex(line, r"^(launcher|chief|replay|learner|parameters|evaluator|actors-[01]) \| ")
        self.assertRegex(run.text, r"chief \| .* the chief listens on 0\.0\.0\.0:7600\n")
        self.assertRegex(run.text, r"replay \| .* node replay listens on 0\.0\.0\.0:7601\n")
        self.assertRegex(run.text, r"actors-1 \| .* node actors-1 listens on 0\.0\.0\.0:7600\n")
        self.assertRegex(run.text, r"chief \|   ended by       max_env_steps\n")
        self.assertNotIn("TRP-E", run.text)
        self.assertTrue((self.hosts.home("n1") / "runs/a/summary.json").exists())
        self.assertFalse((self.hosts.home("n3") / "runs/a/security").exists())
        self.assert_nothing_runs()

    def test_nodes_come_and_go_by_token_and_ctrl_c_ends_it_all(self):
        run = self.up("--run-dir", "runs/b")
        run.await_text(r"node actors-1 has joined")

        code, said = self.troupe("token", "runs/b", "--role", "actor")
        self.assertEqual((code, said), (1, "troupe: runs/b is not the chief's: make the token on its host, n1, where the "
                                           "run is recorded\n"))
        sh("ssh", "n1", TROUPE, "token", "runs/b", "--role", "actor", "--name", "extra", "--output", "join.token")
        sh("scp", "-3", "-p", "n1:join.token", "n1:runs/b/config.toml", "n4:")
        join = ["ssh", "-tt", "n4", TROUPE, "node", "config.toml", "--token", "join.token", "--host", "n4", "--port", "7600"]

        def extra():
            return [pid for pid in processes_of_the_program()
                    if b"join.token\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]

        first = Started(self.here, *join)
        run.await_text(r"chief \| .* node extra has joined \(incarnation 1\)")
        os.kill(extra()[0], signal.SIGKILL)
        run.await_text(r"chief \| .* TRP-E1(01|10) node extra is dead")
        self.assertNotEqual(first.end(), 0)
        second = Started(self.here, *join)  # with the certificate that it was given
        run.await_text(r"chief \| .* node extra has joined \(incarnation 2\)")
        code, said = self.troupe("status", "runs/b")
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"extra +up +2 +n4:7600 ")
        self.assertRegex(said, r"actor-2 +extra +(starting|up) ")
        os.kill(extra()[0], signal.SIGTERM)
        run.await_text(r"chief \| .* node extra has left")
        self.assertEqual(second.end(), 0, second.text)
        third = Started(self.here, *join)
        run.await_text(r"chief \| .* node extra has joined \(incarnation 3\)")
        again = subprocess.run([*join, "--run-dir", "another"], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("TRP-S712 join token was used", again.stdout)

        run.await_text(r"learner [1-9]")
        run.ctrl_c()
        self.assertEqual(run.end(), 0, run.text)
        self.assertEqual(third.end(), 0, third.text)
        self.assertRegex(run.text, r"launcher \| stopping: the chief makes its checkpoint")
        self.assertRegex(run.text, r"chief \|   ended by       stop requested\n")
        self.assertTrue((self.hosts.home("n1") / "runs/b/checkpoints/cut.json").exists())
        self.assertFalse((self.hosts.home("n4") / "runs").joinpath("joined-join/security").exists())
        self.assert_nothing_runs()

        run = self.up("--resume", "runs/b", "--set", "max_minutes=0.05")
        self.assertEqual(run.end(), 0, run.text)
        self.assertRegex(run.text, r"chief \| resuming cartpole-swingup in runs/b\n")

    def test_a_program_and_a_topology_of_ones_own_run_over_hosts(self):
        shutil.copy(ROOT / "examples/hello_topology.toml", self.here)
        (self.here / "own.toml").write_text("[[hosts]]\nssh = 'n1'\n"
                                            "[[hosts]]\nssh = 'n2'\nnodes = { thermometer = 1 }\n"
                                            "[[hosts]]\nssh = 'n3'\nnodes = { thermometer = 1, display = 1 }\n")
        run = Started(self.here, OWN_PROGRAM, "up", "own.toml", "hello_topology.toml", "--run-dir", "runs/d", "--set",
                      "roles.display.measurements=20000")
        self.assertEqual(run.end(), 0, run.text)
        self.assertRegex(run.text, r"chief \| .* node thermometer-1 has joined")
        self.assertRegex(run.text, r"display \| mean of 20000 measurements: 2[01]\.\d\d degrees\n")
        self.assertRegex(run.text, r"chief \|   ended by +roles done\n")
        self.assertNotRegex(run.text, r"TRP-[ES]")
        self.assert_nothing_runs()

    def test_pods_find_each_other_and_the_commands_of_the_manifests_work(self):
        run = str(self.folder / "runs/cartpole")  # on a volume that all pods share

        def arguments(manifest, **variables):
            text = re.search(r"^ *args: \[(.*)\]$", (ROOT / "deploy/kubernetes" / manifest).read_text(), re.MULTILINE)[1]
            for name, value in {"/runs/cartpole": run, "/config/run.toml": "config.toml"}.items():
                text = text.replace(name, value)
            for name, value in variables.items():
                text = text.replace(f"$({name})", value)
            return [word.strip('"') for word in text.split(", ")]

        def pod(host, name, manifest, *more):
            variables = {"POD_NAME": name, "POD_IP": ADDRESSES[host]}
            return Started(self.here, "ip", "netns", "exec", host, "env", f"HOSTNAME={name}", "TROUPE_NODES=3",
                           "TROUPE_SERVICE=cartpole", TROUPE, *arguments(manifest, **variables), *more)

        # Fewer pods than by default: everything but replay and env actors is with the chief.
        fewer = [f"--set=placement.{role}.nodes=0" for role in ("learner", "parameters", "evaluator")]
        pods = [pod(host, f"cartpole-{index}", "run.yaml", *fewer) for index, host in enumerate(NAMES[:3])]
        pods[0].await_text("node actors has joined")
        self.assertIn(f"listens on {ADDRESSES['n2']}:7600", pods[1].text)
        self.assertEqual(pathlib.Path(run, "chief.address").read_text(), "cartpole-0.cartpole:7600\n")
        further = pod("n4", "cartpole-actors-5d9c-x2x4z", "actors.yaml", *fewer)
        pods[0].await_text("node cartpole-actors-5d9c-x2x4z has joined")
        code, said = self.troupe("stop", run)
        self.assertEqual(code, 0, said)
        for each in [*pods, further]:
            self.assertEqual(each.end(), 0, each.text)
        self.assertRegex(pods[0].text, r"ended by +stop requested")

    def test_a_host_that_is_not_ready_is_one_clear_line(self):
        (self.here / "bad.toml").write_text('[[hosts]]\nssh = "n1"\n[[hosts]]\nssh = "n2"\ntroupe = "/no/such/troupe"\n'
                                            '[[hosts]]\nssh = "n9"\n')
        run = self.up("--run-dir", "runs/c", hosts="bad.toml")
        run.await_text(r"launcher \| TRP-E103 node actors-0 \(pid \d+\) died: exit code 127, there is no ssh here or no such "
                       r"program on its host; it stays down and the run goes on without it\n")
        run.await_text(r"actors-0 \| .*/no/such/troupe: (No such file or directory|not found)")
        run.await_text(r"launcher \| TRP-E101 node actors-1 \(pid \d+\) died: exit code 255, ssh did not reach its host or lost "
                       r"it; trying again in ")
        run.await_text(r"actors-1 \| ssh: Could not resolve hostname n9")
        run.ctrl_c()
        time.sleep(0.2)
        run.ctrl_c()
        self.assertEqual(run.end(), 130, run.text)
        self.assert_nothing_runs()


if __name__ == "__main__":
    isolation.enter_namespaces("Up", "root", "hosts", "sshd")
    unittest.main(verbosity=2)
