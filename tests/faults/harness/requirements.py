"""What the tests of this folder need from the machine: each need has a name and a check that says what is missing."""

import os
import pathlib
import shutil
import subprocess

from harness.stopped_thread import StoppedThread

CGROUPS = pathlib.Path("/sys/fs/cgroup")  # version 1: one folder a controller

# Debian keeps administrators' tools in folders that a user's PATH leaves out.
os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def _tools(*names):
    missing = [name for name in names if shutil.which(name) is None]
    return f"no {', '.join(missing)}" if missing else None


def _rate():
    """Having tc says nothing: the queueing discipline may be missing from the kernel."""
    if missing := _tools("tc"):
        return missing
    limit = "tc qdisc add dev lo root tbf rate 1mbit burst 16kb latency 50ms".split()
    tried = subprocess.run(["unshare", "--net", *limit], capture_output=True, text=True, check=False)
    return tried.returncode and f"the kernel has no queueing discipline tbf: {tried.stderr.strip()}"


def _controller(name):
    return None if (CGROUPS / name).is_dir() else f"no control group (version 1) {name}"


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


NEEDS = {
    "root": lambda: os.geteuid() and "not root",
    "hosts": lambda: _tools("ip", "unshare", "nsenter", "setpriv", "mount"),
    "nft": lambda: _tools("nft"),
    "rate": _rate,
    "delay": lambda: not os.access("/dev/net/tun", os.R_OK | os.W_OK) and "no /dev/net/tun",
    "cpu": lambda: _controller("cpu"),
    "memory": lambda: _controller("memory"),
    "ptrace": _ptrace,
    "openssl": lambda: _tools("openssl"),
}


def reason_to_skip(needs):
    """The first of the named needs that this machine does not meet, in words; None when all are met."""
    for name in sorted(needs, key=lambda need: need != "root"):  # the others are asked only of root
        if missing := NEEDS[name]():
            return f"needs {name}: {missing}"
    return None
