"""Hosts on one machine: a host is a network namespace with an address of its own and a PID namespace whose end is the
end of everything on the host. Cables run from each to one switch (a bridge in a namespace of its own), so nothing here
touches the machine's own network. Faults are what a host's packet filter does to arriving packets (loss, black holes,
resets), a rate limit, or a cable with a delay (delay_emulator.cpp).

    with Network() as network:
        chief, actor = network.add_host("chief"), network.add_host("actor-0", cable="slow")
        server = chief.start(["python3", "-m", "http.server"])
        network.cable("actor-0").set(delay_ms=50, loss=0.01)
        network.partition({"chief"}, {"actor-0"})
        network.heal()
        actor.kill()

Names carry the number of the run, and a lock on a file says that the run lives: the next Network removes what a runner
that crashed left behind, and runs beside each other do not meet. Addresses are the same in every run: namespaces keep
them apart.
"""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from harness.requirements import CGROUPS

PREFIX = "troupe-faults"
LOCKS = pathlib.Path("/run/lock") / PREFIX
NETNS = pathlib.Path("/run/netns")
SUBNET = "10.77.0"
TOOL_TIMEOUT_S = 20  # for ip, nft, tc: they take milliseconds


class NetworkError(Exception):
    """A tool failed: its command and what it said."""


def tool(*argv, stdin=None):
    """Runs one of the system's tools; what it prints. Raises NetworkError when it fails."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise NetworkError(f"{' '.join(argv)}: exit status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def add_namespace(name):
    """A network namespace whose devices speak no IPv6 and so send nothing by themselves."""
    tool("ip", "netns", "add", name)
    switch = "/proc/sys/net/ipv6/conf/default/disable_ipv6"  # absent from a kernel without IPv6
    tool("ip", "netns", "exec", name, "sh", "-c", f"[ ! -e {switch} ] || echo 1 >{switch}")


# --- names that no other run has, and what a crashed run left ---


class RunName:
    """A name for this run; others see by a lock, which the kernel gives up however this process ends, that it lives."""

    def __init__(self):
        LOCKS.mkdir(parents=True, exist_ok=True)
        number = os.getpid()
        while True:  # ends: each turn meets another live run
            path = LOCKS / f"{number:x}"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists():  # else a cleaner took it away in between
                    break
            os.close(file)
            number += 1 << 22  # more than any pid
        self.number, self._path, self._file = f"{number:x}", path, file

    def of(self, part):
        return f"{PREFIX}.{self.number}.{part}"

    def release(self):
        """Removes what the run has made and gives the name up. It may be called again."""
        if self._file is None:
            return
        try:
            remove_run(self.number)
            self._path.unlink(missing_ok=True)  # else it stays, so that the next Network removes the rest
        finally:
            os.close(self._file)
            self._file = None


def remove_run(number):
    """Ends every process of a run and removes its namespaces and control groups."""
    mine = f"{PREFIX}.{number}."
    for space in sorted(NETNS.glob(mine + "*")) if NETNS.is_dir() else ():
        for _ in range(50):
            pids = tool("ip", "netns", "pids", space.name).split()
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.02)
        tool("ip", "netns", "delete", space.name)
    for controller in ("cpu", "memory"):
        for group in CGROUPS.glob(f"{controller}/{mine}*"):
            _retry(group.rmdir)  # busy for a moment after its last process


def remove_leftovers():
    """Removes what runs left behind whose process is gone. Their number."""
    removed = 0
    for path in LOCKS.glob("*") if LOCKS.is_dir() else ():
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # another cleaner was here first
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink == 0:
                continue  # the same, and by now the name may be a new run's
            remove_run(path.name)
            path.unlink(missing_ok=True)
            removed += 1
        except BlockingIOError:
            pass  # it lives
        finally:
            os.close(file)
    return removed


def _retry(action, times=50):
    for attempt in range(times):
        try:
            return action()
        except OSError:
            if attempt == times - 1:
                raise
            time.sleep(0.02)


# --- processes ---


@dataclasses.dataclass(frozen=True)
class Process:
    """A process of a host: `pid` as the machine counts, `inner_pid` as the host does (and as the program says it)."""

    pid: int
    inner_pid: int
    parent: int
    argv: tuple


def read_status(pid):
    """Fields of /proc/PID/status as text; None when the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


class Output:
    """What a program prints, line by line with the time of its arrival (time.monotonic()); also written to a file."""

    def __init__(self, stream, path):
        self.lines = []  # (monotonic seconds, text); appended only
        self._thread = threading.Thread(target=self._read, args=(stream, path), daemon=True)
        self._thread.start()

    def _read(self, stream, path):
        with stream, open(path, "a", encoding="utf-8", buffering=1) if path else contextlib.nullcontext() as file:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                self.lines.append((time.monotonic(), line))
                if file:
                    file.write(line + "\n")

    def wait_for(self, text, timeout_s, since=0.0):
        """The time at which a line with `text` came, at or after `since`; None when none came in time."""
        deadline = time.monotonic() + timeout_s
        seen = 0
        while True:
            alive = self._thread.is_alive()  # asked first, so that no last line is missed
            for at, line in self.lines[seen:]:
                seen += 1
                if at >= since and text in line:
                    return at
            if not alive or time.monotonic() > deadline:
                return None
            time.sleep(0.005)

    def text(self):
        self._thread.join(timeout=1)
        return "\n".join(line for _, line in self.lines)


class Program:
    """A program that runs on a host."""

    def __init__(self, host, popen, output):
        self.host, self.popen, self.output = host, popen, output

    @property
    def process(self):
        """The process itself: what was started is nsenter, whose only child it is. None when it is gone."""
        children = [p for p in self.host.processes() if p.parent == self.popen.pid]
        return children[0] if children else None

    def signal(self, number):
        """Sends a signal to the program. Whether there was one."""
        process = self.process
        return process is not None and self.host.signal(process.inner_pid, number)

    def wait(self, timeout_s):
        """The exit status (negative: ended by that signal); None when it still runs after the time."""
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None


# --- hosts ---


class Host:
    """One machine of the network; made by Network.add_host()."""

    def __init__(self, name, address, hardware, run_name, set_plug):
        self.name, self.address, self.hardware = name, address, hardware
        self._set_plug = set_plug  # of its cable at the switch: "up" or "down"
        self._run_name = run_name
        self._space = NETNS / run_name.of(name)
        self._init = None  # Popen of unshare
        self._init_pid = None  # the host's process 1
        self._programs = []
        self._groups = {}  # controller -> folder
        self._rules = {}  # key -> what arriving packets meet, in nft's words

    def boot(self):
        """Starts the host's process 1; programs do not come back by themselves. Call it on the main thread: the host
        ends with the thread that booted it."""
        self._set_plug("up")
        self._init_pid = None
        # Process 1 ignores SIGCHLD, so the kernel buries orphans for it.
        init = 'hostname "$1" && mount -t tmpfs none /run && echo up && exec env --ignore-signal=CHLD sleep infinity'
        self._init = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={self._space}", "--no-fork",
             "unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts",
             "sh", "-c", init, "init", self.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = self._init.stdout.readline()
        if said != b"up\n":
            self._init.kill()
            raise NetworkError(f"host {self.name} does not start: {said.decode()}")
        self._init_pid = next(p for p, status in _all_status() if status["PPid"] == str(self._init.pid))

    def kill(self):
        """Power off: nothing of the host is heard any more, then all its processes end at once. boot() starts it again
        with the same address."""
        self._set_plug("down")  # first, so that the kernel closes no connection for the processes
        self.end()

    def end(self):
        """Ends all processes; others see their connections closed."""
        if self.is_up:
            os.kill(self._init_pid, signal.SIGKILL)
        for program in self._programs:
            while program.wait(timeout_s=0.01) is None:  # ends: its program has ended
                program.popen.send_signal(signal.SIGCONT)  # nsenter stops when its program is stopped
        self._programs.clear()
        if self._init is not None:
            self._init.stdout.close()
            self._init.wait(TOOL_TIMEOUT_S)

    def freeze(self):
        """Every process stops where it is, as those of a virtual machine that is moved or swapped out."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)

    def thaw(self):
        for pid in [process.pid for process in self.processes()] + [program.popen.pid for program in self._programs]:
            with contextlib.suppress(ProcessLookupError):  # nsenter stops with its program
                os.kill(pid, signal.SIGCONT)

    @property
    def is_up(self):
        return self._init_pid is not None and self._init.poll() is None

    def start(self, argv, log=None, env=None, cwd="."):
        """Starts a program; its output (both streams) is read by the line and also appended to the file `log`."""
        popen = subprocess.Popen(self._inside(argv, cwd), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, env=env)
        self._programs.append(Program(self, popen, Output(popen.stdout, log)))
        return self._programs[-1]

    def run(self, argv, timeout_s=TOOL_TIMEOUT_S, cwd="."):
        """Runs a program to its end. Raises subprocess.TimeoutExpired."""
        return subprocess.run(self._inside(argv, cwd), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout_s, check=False)

    def _inside(self, argv, cwd):
        # Without --root a mount namespace begins at the machine's own root, also for who is in a chroot.
        enter = ["nsenter", "-t", str(self._init_pid), "--net", "--pid", "--mount", "--uts", "--root",
                 f"--wdns={os.path.abspath(cwd)}", "--", *argv]
        groups = [str(folder / "cgroup.procs") for folder in self._groups.values()]
        if not groups:
            return enter
        join = f'for group in "${{@:1:{len(groups)}}}"; do echo $$ >"$group"; done; exec "${{@:{len(groups) + 1}}}"'
        return ["bash", "-c", join, "join", *groups, *enter]

    def processes(self):
        """All processes of the host but process 1."""
        if not self.is_up:
            return []
        try:
            space = os.readlink(f"/proc/{self._init_pid}/ns/pid")
        except FileNotFoundError:
            return []  # it ended just now
        found = []
        for pid, status in _all_status():
            with contextlib.suppress(OSError):
                if pid != self._init_pid and os.readlink(f"/proc/{pid}/ns/pid") == space:
                    argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
                    if argv:  # else a zombie
                        found.append(Process(pid, int(status["NSpid"].split()[-1]), int(status["PPid"]), tuple(argv)))
        return found

    def signal(self, inner_pid, number):
        """Sends a signal to the process that calls itself `inner_pid`. Whether it was there."""
        for process in self.processes():
            if process.inner_pid == inner_pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
                    if number == signal.SIGCONT and process.parent in (p.popen.pid for p in self._programs):
                        os.kill(process.parent, number)  # nsenter stopped with it
                    return True
        return False

    def listeners(self):
        """Where the host listens on TCP: (address, port, inner pid), address as in /proc/net/tcp put into words."""
        owners = {}
        for process in self.processes():
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{process.pid}/fd"):
                    with contextlib.suppress(OSError):
                        owners[os.readlink(f"/proc/{process.pid}/fd/{name}")] = process.inner_pid
        found = []
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/{self._init_pid}/net/{table}").read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":  # LISTEN
                    address, port = fields[1].split(":")
                    words = [bytes.fromhex(address[i:i + 8])[::-1] for i in range(0, len(address), 8)]
                    text = ".".join(map(str, words[0])) if table == "tcp" else b"".join(words).hex(":", 2)
                    found.append((text, int(port, 16), owners.get(f"socket:[{fields[9]}]")))
        return sorted(found, key=lambda one: one[1])

    def mount_tmpfs(self, path, size):
        """A small disk at the folder `path`, seen only by this host (from outside: host.path(path))."""
        done = self.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)])
        if done.returncode != 0:
            raise NetworkError(f"mount at {path}: {done.stderr.strip()}")

    def path(self, path):
        """A path of the host as the machine reaches it."""
        return pathlib.Path(f"/proc/{self._init_pid}/root") / str(path).lstrip("/")

    def limit_cpu(self, share):
        """Of one processor, for all that runs and will run on the host; None: no limit."""
        period_us = 100_000
        self._group("cpu", "cpu.cfs_quota_us", -1 if share is None else int(share * period_us))

    def limit_memory(self, limit_bytes):
        self._group("memory", "memory.limit_in_bytes", limit_bytes)

    def _group(self, controller, key, value):
        folder = self._groups.setdefault(controller, CGROUPS / controller / self._run_name.of(self.name))
        folder.mkdir(exist_ok=True)
        (folder / key).write_text(str(value), encoding="ascii")
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(process.pid), encoding="ascii")

    def filter(self, key, rule):
        """From now on packets that arrive from the network meet `rule` (nft's words); one rule a key."""
        self._rules[key] = rule
        self._apply_rules()

    def filter_nothing(self):
        if self._rules:
            self._rules.clear()
            self._apply_rules()

    def _apply_rules(self):
        arriving = "\n".join(f'iifname "eth0" {rule}' for rule in self._rules.values())
        table = ("table inet faults\ndelete table inet faults\n"  # absent or not, it is gone now
                 f"table inet faults {{\nchain arriving {{\ntype filter hook input priority 0;\n{arriving}\n}}\n}}\n")
        tool("ip", "netns", "exec", self._space.name, "nft", "-f", "-", stdin=table)


def _all_status():
    for name in os.listdir("/proc"):
        if name.isdigit() and (status := read_status(name)):
            yield int(name), status


# --- cables ---


class SlowCable:
    """A cable that delays, loses, doubles and reorders frames; at first it does nothing of that."""

    def __init__(self, emulator, near, near_device, far, far_device, seed):
        self._popen = subprocess.Popen([emulator, near, near_device, far, far_device, str(seed)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self._expect("ready")

    def set(self, **impairment):
        """In both directions: delay_ms, jitter_ms, loss, duplicate, reorder; what is left out is 0."""
        for direction in ("ab", "ba"):
            self.set_one_way(direction, **impairment)

    def set_one_way(self, direction, **impairment):
        """`direction`: "ab" from the host, "ba" to it."""
        self._ask(f"{direction} " + " ".join(f"{key}={value}" for key, value in impairment.items()))
        self._expect("ok")

    def stats(self):
        """{"ab": {"received": 12, ...}, "ba": {...}}."""
        self._ask("stats")
        parts = (part.split() for part in self._popen.stdout.readline().split("; "))
        return {name: {key: int(value) for key, value in (pair.split("=") for pair in pairs)} for name, *pairs in parts}

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.close()
        self._popen.wait(TOOL_TIMEOUT_S)
        self._popen.stdout.close()

    def _ask(self, line):
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()

    def _expect(self, answer):
        got = self._popen.stdout.readline().rstrip("\n")
        if got != answer:
            raise NetworkError(f"delay emulator: expected {answer!r}, got {got!r}")


class Network:
    """A switch and its hosts. A context: leaving it ends every process and removes everything."""

    def __init__(self, emulator=None, seed=0):
        """`emulator`: the program delay_emulator, for hosts with slow cables."""
        remove_leftovers()
        self.hosts = {}
        self._emulator, self._seed = emulator, seed
        self._cables = {}
        self.run_name = RunName()
        self._switch = self.run_name.of("switch")

    def __enter__(self):
        try:
            add_namespace(self._switch)
            tool("ip", "-n", self._switch, "link", "add", "bridge", "address", "02:00:00:4d:00:fe", "type", "bridge",
                 "mcast_snooping", "0")  # it asks around by itself otherwise
            tool("ip", "-n", self._switch, "link", "set", "bridge", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends and removes all. It may be called again, and after whatever went wrong it does what can be done: an error
        in here would hide the one that matters, so it is a line of its own."""
        for end in [host.end for host in self.hosts.values()] + [cable.close for cable in self._cables.values()] + [
                self.run_name.release]:
            try:
                end()
            except (NetworkError, OSError, subprocess.SubprocessError) as error:
                print(f"clean-up of {self.run_name.of('*')}: {error}", file=sys.stderr)
        self._cables.clear()

    def add_host(self, name, cable="fast"):
        """A host with the next address of the network. `cable`: "fast" (a virtual Ethernet pair), or "slow"."""
        number = len(self.hosts) + 1
        port, space = f"port-{number}", self.run_name.of(name)
        add_namespace(space)
        tool("ip", "-n", space, "link", "set", "lo", "up")
        if cable == "slow":
            self._cables[name] = SlowCable(self._emulator, str(NETNS / space), "eth0", str(NETNS / self._switch), port,
                                           self._seed + number)
        else:
            tool("ip", "-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
        tool("ip", "-n", self._switch, "link", "set", port, "master", "bridge")
        host = Host(name, f"{SUBNET}.{number}", f"02:00:00:4d:00:{number:02x}", self.run_name,
                    lambda state: tool("ip", "-n", self._switch, "link", "set", port, state))
        tool("ip", "-n", space, "link", "set", "eth0", "address", host.hardware, "up")
        tool("ip", "-n", space, "address", "add", f"{host.address}/24", "dev", "eth0")
        for other in self.hosts.values():  # address resolution is no part of any fault, so all know each other
            for one, peer in (host, other), (other, host):
                tool("ip", "-n", self.run_name.of(one.name), "neighbour", "add", peer.address, "lladdr", peer.hardware,
                     "dev", "eth0", "nud", "permanent")
        self.hosts[name] = host
        host.boot()
        return host

    def cable(self, name):
        """The slow cable of a host."""
        return self._cables[name]

    # --- faults; each stays until heal(). Names of hosts, or sets of them. ---

    def block(self, senders, receivers):
        """A one-way black hole: what the senders send to the receivers vanishes."""
        self._rule("block", senders, receivers, "drop")

    def partition(self, some, others):
        """A black hole both ways."""
        self.block(some, others)
        self.block(others, some)

    def refuse(self, senders, receivers):
        """The receivers answer the senders' TCP packets with resets, as a host does whose program is gone."""
        self._rule("refuse", senders, receivers, "meta l4proto tcp reject with tcp reset")

    def lose(self, names, share):
        """Of all packets that arrive at the hosts, at random. For losses that repeat, take a slow cable."""
        for name in names:
            self.hosts[name].filter("lose", f"numgen random mod 10000 < {round(share * 10000)} drop")

    def limit_rate(self, name, rate):
        """Of what the host sends; in tc's words, e.g. "1mbit". None: no limit."""
        space = self.run_name.of(name)
        if rate is None:
            tool("tc", "-n", space, "qdisc", "delete", "dev", "eth0", "root")
        else:
            tool("tc", "-n", space, "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16kb",
                 "latency", "50ms")

    def heal(self):
        """Ends black holes, refusals and losses."""
        for host in self.hosts.values():
            host.filter_nothing()

    def _rule(self, kind, senders, receivers, verdict):
        for receiver in receivers:
            for sender in senders:
                self.hosts[receiver].filter((kind, sender), f"ip saddr {self.hosts[sender].address} {verdict}")
