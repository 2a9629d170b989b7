"""What the tests of faults and of deploy/ need from the machine: each need has a name and a check that says what is
missing. A check does what the tests will do, on a small scale: tools and the user's number alone say nothing in a
container or a chroot.

    python3 -m harness.requirements NEED...    exit status 77 and the reason where one of the needs is not met
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys

from harness.stopped_thread import StoppedThread

SKIPPED = 77  # the exit status of a test that is skipped, for ctest: SKIP_RETURN_CODE

CGROUPS = pathlib.Path("/sys/fs/cgroup")  # version 1: one folder a controller

# Debian keeps administrators' tools in folders that a user's PATH leaves out.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"

PATIENCE_S = 60  # for a check, which takes milliseconds
# As a container on the host's network has them.
OWN_PROCESSES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
NAMESPACES = (*OWN_PROCESSES, "--net", "--uts", "--ipc")

# A host and its cable to a switch as network.py, deploy/demo.sh and the tests of deploy/ make them, in namespaces that
# end with the script. The first command that fails says why.
A_HOST = """
try() { said=$("$@" 2>&1) || { echo "$1: ${said#"$1: "}"; exit 1; }; }
try hostname probe
try mount -t tmpfs none /run
try ip netns add host
try ip netns exec host true
try ip link add switch type bridge
try ip link add port type veth peer name eth0 netns host
try ip link set port master switch up
try nsenter --net=/run/netns/host --no-fork unshare --pid --fork --kill-child --mount --mount-proc --uts true
"""

# What the kernel's words mean here, and what to do.
HINTS = {"Operation not permitted": "the container or the user lacks CAP_SYS_ADMIN or CAP_NET_ADMIN",
         "filesystem propagation": "in a chroot, / must be a mount point: mount --bind DIR DIR before chroot DIR"}


def _tools(*names):
    missing = [name for name in names if shutil.which(name) is None]
    return f"no {', '.join(missing)}" if missing else None


def _try(argv, stdin=None):
    """The last line of what a command says that fails, with a hint; None when it succeeds."""
    tried = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if tried.returncode == 0:
        return None
    said = (tried.stdout + tried.stderr).strip().splitlines() or [f"{argv[0]}: exit status {tried.returncode}"]
    hints = [hint for words, hint in HINTS.items() if words in said[-1]]
    return said[-1] + "".join(f" ({hint})" for hint in hints)


def _hosts():
    if missing := _tools("hostname", "ip", "mount", "nsenter", "setpriv", "unshare"):
        return missing
    if not os.access("/run", os.W_OK):
        return "/run cannot be written"
    return _try([*NAMESPACES, "sh", "-c", A_HOST])


def _nft():
    if missing := _tools("nft"):
        return missing
    rules = """table inet faults {
      chain arriving {
        type filter hook input priority 0
        numgen random mod 10000 < 5 drop
        meta l4proto tcp reject with tcp reset
      }
    }"""
    return _try(["unshare", "--net", "nft", "-f", "-"], stdin=rules)


def _rate():
    if missing := _tools("tc"):
        return missing
    limit = "tc qdisc add dev lo root tbf rate 1mbit burst 16kb latency 50ms"
    return _try(["unshare", "--net", *limit.split()])


def _delay():
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return None


def _controller(name):
    folder = CGROUPS / name
    if not folder.is_dir():
        return f"no control group (version 1) {name}"
    return None if os.access(folder, os.W_OK) else f"{folder} cannot be written"


def _ptrace():
    """Containers may forbid it."""
    with subprocess.Popen(["sleep", "10"]) as other:
        try:
            StoppedThread(other.pid).go_on()
        except OSError as error:
            return str(error)
        finally:
            other.kill()
    return None


def _slurm():
    if missing := _tools("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "sinfo"):
        return missing
    return None if CGROUPS.is_mount() else f"slurmd wants control groups, and none are mounted at {CGROUPS}"


def _own_processes():
    return _tools("unshare") or _try([*OWN_PROCESSES, "true"])


NEEDS = {
    "root": lambda: os.geteuid() and "not root",
    "hosts": _hosts,
    "own_processes": _own_processes,
    "nft": _nft,
    "rate": _rate,
    "delay": _delay,
    "cpu": lambda: _controller("cpu"),
    "memory": lambda: _controller("memory"),
    "ptrace": _ptrace,
    "openssl": lambda: _tools("openssl"),
    "setpriv": lambda: _tools("setpriv"),
    "shellcheck": lambda: _tools("shellcheck"),
    "sshd": lambda: _tools("sshd", "ssh", "scp", "ssh-keygen"),  # Debian: openssh-server
    "slurm": _slurm,
}


@functools.cache
def _missing(name):
    return NEEDS[name]() or None


def reason_to_skip(needs):
    """The first of the named needs that this machine does not meet, in words; None when all are met."""
    for name in sorted(needs, key=lambda need: ("root", "hosts").index(need) if need in ("root", "hosts") else 2):
        if missing := _missing(name):  # the others are asked only where there may be hosts
            return f"needs {name}: {missing}"
    return None


if __name__ == "__main__":
    if reason := reason_to_skip(sys.argv[1:]):
        print(reason)
        sys.exit(SKIPPED)
