"""A training run of the real program on hosts of a Network: how it is started, asked and found. Scenarios act on it by
the names that `troupe status` uses."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

from harness.certificates import Forge
from harness.remote_shell import PORT as SHELL_PORT
from harness.stopped_thread import StoppedThread, busiest_thread

STATUS_TIMEOUT_S = 5
BAD_PEERS = [sys.executable, "-ISB", "-Wignore", str(pathlib.Path(__file__).with_name("bad_peers.py"))]
REMOTE_SHELL = [sys.executable, "-ISB", str(pathlib.Path(__file__).with_name("remote_shell.py"))]


class Training:
    """`troupe train CONFIG --processes` on one host: a process for each role, and a launcher that restarts them."""

    _around = ()  # words before each command of the program

    def __init__(self, network, program, config, folder, settings=()):
        self.network, self.folder = network, pathlib.Path(folder)
        self.run_folder = self.folder / "run"
        self._program, self._config, self._settings = program, str(config), list(settings)
        self.launcher = None
        self.hosts = [network.add_host("host")]
        self.chief_host = self.hosts[0]

    def start(self):
        options = ["--processes", "--run-dir", str(self.run_folder)]
        options += self._set()
        self.launcher = self.chief_host.start([*self._around, *self._program, "train", self._config, *options],
                                              log=self.folder / "launcher.txt")

    def _set(self):
        return [word for setting in self._settings for word in ("--set", setting)]

    def status(self):
        """The JSON text of the status, or None while nobody answers."""
        command = [*self._around, *self._program, "status", str(self.run_folder), "--json"]
        try:
            done = self.chief_host.run(command, STATUS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
        # Before the launcher has written who the nodes are, the run is taken for one within one process.
        return done.stdout if done.returncode == 0 and '"nodes"' in done.stdout else None

    def node(self, name):
        """(host, process) of the node of that name; None when it has no process."""
        for host in self.hosts:
            for process in host.processes():
                argv = process.argv
                if "node" in argv and ("--name", name) in zip(argv, argv[1:]):
                    return host, process
        return None

    def second(self, name):
        """Starts another process for a node of the run, as if by mistake."""
        return self.chief_host.start([*self._program, "node", self._config, "--cluster",
                                      str(self.run_folder / "cluster.toml"), "--name", name, "--run-dir",
                                      str(self.run_folder), *self._set()])

    def processes(self):
        """{name: pid of the machine} of the nodes and the launcher."""
        found = {}
        for host in self.hosts:
            for process in host.processes():
                argv = process.argv
                names = [name for flag, name in zip(argv, argv[1:]) if flag == "--name"]
                if "node" in argv and names:
                    found[names[0]] = process.pid
                elif "train" in argv:
                    found["launcher"] = process.pid
        return found

    def stop(self, timeout_s=30):
        """Ends the run as a user does, with Ctrl-C. The launcher's exit status; None when it did not end in time."""
        self.launcher.signal(signal.SIGINT)
        return self.launcher.wait(timeout_s)


class SmallDiskTraining(Training):
    """The run directory is on a disk of its own, of 64 MiB."""

    def __init__(self, network, program, config, folder, settings=()):
        super().__init__(network, program, config, folder, settings)
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.chief_host.mount_tmpfs(self.disk, "64m")
        self.run_folder = self.disk / "run"


class MovedClockTraining(Training):
    """The wall clock of all processes can be moved."""

    def __init__(self, network, program, config, folder, settings=()):
        super().__init__(network, program, config, folder, settings)
        self._shift = self.folder / "wall_clock"
        self.move_clock(0)
        self._around = ("env", f"LD_PRELOAD={os.environ['TROUPE_WALL_CLOCK_LIBRARY']}", f"TROUPE_WALL_CLOCK={self._shift}")

    def move_clock(self, by_s):
        """From now on it says so much more than the machine's."""
        self._shift.touch()
        with open(self._shift, "r+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", by_s))


class ClusterTraining(Training):
    """`troupe up` from a host of its own over five others: head (chief, parameters, evaluator), replay, learner, left
    and right (an env actor each). The launcher's ssh is remote_shell.py."""

    HOSTS = {"head": "parameters = 1, evaluator = 1", "replay": "replay = 1", "learner": "learner = 1",
             "left": "actors = 1", "right": "actors = 1"}

    def __init__(self, network, program, config, folder, settings=(), slow_hosts=()):
        self.network, self.folder = network, pathlib.Path(folder)
        self.run_folder = self.folder / "run"
        self._program, self._config = program, str(config)
        self._settings = ["actors.count=2", *settings]
        self.launcher = None
        self.chief_host = network.add_host("office")  # status is asked from where the launcher is
        for name in self.HOSTS:
            network.add_host(name, "slow" if name in slow_hosts else "fast")
            self.open_shell(name)
        self.hosts = list(network.hosts.values())

    def open_shell(self, name):
        """Lets the launcher reach a host that has booted."""
        server = self.network.hosts[name].start([*REMOTE_SHELL, "serve"])
        if server.output.wait_for("up", timeout_s=10) is None:
            raise RuntimeError(f"no remote shell on {name}: {server.output.text()}")

    def start(self):
        program = " ".join(self._program)
        hosts = "".join(f'[[hosts]]\nssh = "{self.network.hosts[name].address}"\nnodes = {{ {nodes} }}\n'
                        f'troupe = "{program}"\n\n' for name, nodes in self.HOSTS.items())
        (self.folder / "hosts.toml").write_text(hosts, encoding="utf-8")
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "ssh").write_text(f'#!/bin/sh\nexec {" ".join(REMOTE_SHELL)} ssh "$@"\n', encoding="utf-8")
        (tools / "ssh").chmod(0o755)
        options = ["--run-dir", str(self.run_folder)]
        options += self._set()
        self.launcher = self.chief_host.start(
            [*self._program, "up", str(self.folder / "hosts.toml"), self._config, *options],
            log=self.folder / "launcher.txt", env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"})


class Actions:
    """What a schedule may do to a training. Targets are instances or nodes, as `troupe status` names them, or hosts."""

    def __init__(self, training, observer):
        self._training, self._observer = training, observer
        self._network = training.network
        self.happened_s = None  # when the last one did, where that is long after it was asked for
        self.second = None  # the Program of start_second
        self._stopped = {}  # by target: the thread of stop_thread
        self.attacked = []  # by bad_peers: what it prints, and the host, port and process attacked

    def _process(self, target):
        if target == "launcher":
            return self._training.chief_host, self._training.launcher.process
        instance = self._observer.snapshots[-1].instances.get(target)
        found = self._training.node(instance.node if instance else target)
        if found is None:
            raise LookupError(f"{target} has no process")
        return found

    def _signal(self, target, number):
        host, process = self._process(target)
        self.happened_s = time.monotonic()  # finding it took a while
        if target == "launcher":
            host.signal(process.inner_pid, number)
        else:
            os.kill(process.pid, number)

    def kill(self, target):
        self._signal(target, signal.SIGKILL)

    def stop(self, target):
        self._signal(target, signal.SIGSTOP)

    def go_on(self, target):
        self._signal(target, signal.SIGCONT)

    def stop_thread(self, target):
        """The thread that works stands still; the process answers as before."""
        thread = busiest_thread(self._process(target)[1].pid)
        self.happened_s = time.monotonic()
        self._stopped[target] = StoppedThread(thread)

    def thread_goes_on(self, target):
        self._stopped.pop(target).go_on()

    def signal_launcher(self, _target, number, times=1):
        process = self._training.launcher.process
        self.happened_s = time.monotonic()
        for _ in range(times):
            os.kill(process.pid, number)
            time.sleep(0.01)  # two that come at once are one

    def kill_host(self, target):
        self._network.hosts[target].kill()

    def boot_host(self, target):
        self._network.hosts[target].boot()
        self._training.open_shell(target)

    def partition(self, target, others=None):
        """Black holes between a host and others (default: all others)."""
        self._network.partition({target}, set(others or self._network.hosts) - {target})

    def block_to(self, target):
        """Nothing reaches the host."""
        self._network.block(set(self._network.hosts) - {target}, {target})

    def block_from(self, target):
        """Nothing that the host sends arrives."""
        self._network.block({target}, set(self._network.hosts) - {target})

    def freeze(self, target):
        self._network.hosts[target].freeze()

    def thaw(self, target):
        self._network.hosts[target].thaw()

    def fill_disk(self, target):
        fill = f"cat /dev/zero >{self._training.disk}/fill"  # ends with an error: it is full
        self._network.hosts[target].run(["sh", "-c", fill])

    def empty_disk(self, target):
        self._network.hosts[target].run(["rm", f"{self._training.disk}/fill"])

    def move_clock(self, _target, by_s):
        self._training.move_clock(by_s)

    def start_second(self, target):
        self.second = self._training.second(target)

    def end_second(self, _target):
        self.second.signal(signal.SIGKILL)

    def heal(self, _target):
        self._network.heal()

    def lose(self, target, share):
        self._network.lose({target}, share)

    def cable(self, target, **impairment):
        self._network.cable(target).set(**impairment)

    def rate(self, target, rate):
        self._network.limit_rate(target, rate)

    def cpu(self, target, share):
        self._network.hosts[target].limit_cpu(share)

    def bad_peers(self, _target):
        """Every bad input (bad_peers.py) for every socket on which anything listens on any host, from the same host
        for those that only it can reach, else from another."""
        forge = Forge(self._training.folder / "certificates")
        authority = self._training.run_folder / "security/authority.key"
        uri = f"troupe://{Forge.run_of(authority)}/actor/intruder"
        certificates = forge.folder / "all.json"
        certificates.write_text(json.dumps({
            "good": str(forge.issue("intruder", authority, uri)),
            "bad": {what: str(pem) for what, pem in forge.all_bad(authority, uri).items()}}), encoding="utf-8")
        attackers = []
        for host in self._training.hosts:
            for address, port, pid in host.listeners():
                if port == SHELL_PORT:
                    continue
                local = address.startswith("127.")
                attacker = host if local else self._training.hosts[0]
                command = [*BAD_PEERS, address if local else host.address, str(port), str(certificates)]
                attackers.append((host.name, port, pid, attacker.start(command)))
        for name, port, pid, program in attackers:
            if program.wait(timeout_s=120) != 0:
                raise RuntimeError(f"bad_peers on {name}:{port}: {program.output.text()}")
            self.attacked += [{"host": name, "port": port, "pid": pid, **json.loads(line)}
                              for _, line in program.output.lines]
        (self._training.folder / "bad_peers.json").write_text(json.dumps(self.attacked, indent=1), encoding="utf-8")


def wait_until(at_s):
    time.sleep(max(0.0, at_s - time.monotonic()))
