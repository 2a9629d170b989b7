"""What is known of a run from outside, over time: what it says itself and what /proc says. Oracles read nothing else.

The one place that knows what `troupe status --json` looks like is Snapshot.parse().
"""

import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import threading
import time

from harness.network import read_status


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    incarnation: int
    state: str  # "expected", "up", "dead", "left"


@dataclasses.dataclass(frozen=True)
class Instance:
    name: str
    role: str
    node: str
    incarnation: int
    state: str  # "up", "restarting", "quarantined", ...
    version: int = -1  # of the parameters that it made or has; -1: it has none
    frames: dict = dataclasses.field(default_factory=dict)  # port -> frames that went through it in this incarnation


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One answer of `troupe status RUN --json`; at_s is monotonic time."""

    at_s: float
    term: int
    nodes: dict  # name -> Node
    instances: dict  # name -> Instance
    last_cut: int = 0  # number of the newest checkpoint

    @staticmethod
    def parse(text, at_s):
        status = json.loads(text)
        nodes = (Node(node["name"], node["incarnation"], node["state"]) for node in status["nodes"])
        instances = (Instance(one["name"], one["role"], one["node"], one["incarnation"], one["state"],
                              one.get("version", -1), {port["name"]: port["frames"] for port in one.get("ports", ())})
                     for one in status["instances"])
        return Snapshot(at_s, status["term"], {node.name: node for node in nodes},
                        {instance.name: instance for instance in instances}, status.get("last_cut", 0))


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process held at a moment. `name` says which process of the run it is and stays over its restarts."""

    at_s: float
    name: str
    pid: int
    fds: int
    threads: int
    rss_bytes: int

    @staticmethod
    def of(name, pid):
        """None when the process is gone."""
        with contextlib.suppress(OSError, KeyError, TypeError):
            status = read_status(pid)
            return Usage(time.monotonic(), name, pid, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]),
                         int(status["VmRSS"].split()[0]) * 1024)
        return None


def read_metrics(path):
    """All complete rows of a metrics.csv: name -> number, without empty cells."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    complete = text[:text.rfind("\n") + 1].splitlines()
    return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(complete)]


class Observer:
    """Looks at a run from a thread of its own and keeps what it saw, also in a file as JSON lines.

    poll_status: returns the text of the status, or None while nobody answers.
    list_processes: returns {name: pid of the machine} of what is to be measured.
    """

    def __init__(self, poll_status, list_processes, record, every_s=0.1, usage_every_s=1.0):
        self.snapshots, self.usages = [], []  # appended only
        self._poll_status, self._list_processes = poll_status, list_processes
        self._every_s, self._usage_every_s = every_s, usage_every_s
        self._record = record
        self._stop = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        if self._failure:
            raise self._failure

    def wait_for(self, condition, timeout_s):
        """The first snapshot from now on that meets the condition; None when none came in time."""
        deadline, seen = time.monotonic() + timeout_s, len(self.snapshots)
        while time.monotonic() < deadline and self._failure is None:
            for snapshot in self.snapshots[seen:]:
                seen += 1
                if condition(snapshot):
                    return snapshot
            time.sleep(0.01)
        return None

    def _run(self):
        try:
            with open(self._record, "w", encoding="utf-8") as record:
                self._observe(record)
        except Exception as failure:  # pylint: disable=broad-except; raised again where the observer ends
            self._failure = failure

    def _observe(self, record):
        usage_due = 0.0
        while not self._stop.wait(self._every_s):
            text = self._poll_status()
            if text is not None:
                self.snapshots.append(Snapshot.parse(text, time.monotonic()))
                record.write(json.dumps({"at_s": self.snapshots[-1].at_s, "status": json.loads(text)}) + "\n")
            if time.monotonic() >= usage_due:
                usage_due = time.monotonic() + self._usage_every_s
                for usage in filter(None, (Usage.of(*one) for one in self._list_processes().items())):
                    self.usages.append(usage)
                    record.write(json.dumps(dataclasses.asdict(usage)) + "\n")
