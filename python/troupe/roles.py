"""Roles of a topology, written in Python. `main()` is the whole program `troupe` with them in it:

    class Display(troupe.Role):
        "Averages what is measured"
        inlets = {"celsius": "Celsius"}
        keys = {"measurements": 100}
        completes_run = True

        def __init__(self, keys, identity):
            self.wanted, self.seen = keys["measurements"], []

        def step(self, context):
            message = context.inlet("celsius").take()
            if message is None:
                return troupe.Progress.IDLE
            ...

    if __name__ == "__main__":
        raise SystemExit(troupe.main(roles={"display": Display}, messages={"Celsius": 8}))

`python my_run.py train my_run.toml --processes` gives each role a process of its own, supervised as all others are. The
roles of one process share Python's lock; those that ship are native threads and do not take it.
"""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from troupe import _core
from troupe.arrays import Array
from troupe.error import TroupeError

if TYPE_CHECKING:
    from troupe.sequences import SequenceReplayRole

Progress = _core.Progress
Context = _core.Context


@dataclasses.dataclass(frozen=True)
class Port:
    """type: of what it carries, one of Troupe's messages (troupe.messages) or a registered one. kind: "stream" is lossless
    and holds the sender back, of "latest" the newest wins, "request" is a bounded set of calls, whose answers are of type
    `answer` (by default that of the requests). always_drained: the role takes here even while all its outlets are full."""

    type: str
    kind: str = "stream"
    always_drained: bool = False
    answer: str = ""
    name: str = ""  # that of its place in `inlets` or `outlets`


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of [roles.NAME]: its default, which also says its type, and what is allowed."""

    default: Any
    doc: str = ""
    unit: str = ""
    min: float = -math.inf
    max: float = math.inf
    choices: Sequence[str] = ()
    name: str = ""  # that of its place in `keys`


@dataclasses.dataclass(frozen=True)
class Identity:
    """Who an instance of a role is."""

    role: str  # name in the topology
    index: int  # 0 .. count-1; more when nodes join a run that goes on
    count: int  # instances, as configured
    incarnation: int  # how often this one was restarted
    seed: int  # from (run seed, role, index)
    name: str  # "role", or "role-index"
    directory: str  # of its own, which outlives its process; "": none. The role makes it when it needs it
    run_directory: str  # for what people should find there; "": the run leaves nothing behind
    resumes: bool  # the whole run goes on from a checkpoint


@dataclasses.dataclass
class Report:
    """Numbers for metrics.csv and TensorBoard as ROLE/NAME. counters: totals since the run began, from which rates follow;
    gauges: values of now, averaged over a role's instances; sums: values of now that are added up."""

    counters: Mapping[str, float] = dataclasses.field(default_factory=dict)
    gauges: Mapping[str, float] = dataclasses.field(default_factory=dict)
    sums: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Role:
    """A part of a run with a state of its own; one thread at a time calls it. A subclass says as attributes what kind of
    role it is, and its docstring what it does."""

    inlets: Mapping[str, Union[str, Port]] = {}
    outlets: Mapping[str, Union[str, Port]] = {}
    keys: Mapping[str, Any] = {}  # of [roles.NAME]: a default or a Key each
    completes_run = False  # the run is complete when all instances are done; some role must have this
    restart_from_checkpoint = False  # a restarted instance starts from what it saved in the last checkpoint, else afresh
    quarantine = False  # an instance that fails too often is given up while others of its role live
    elastic = False  # nodes that join a run may host further instances

    def __init__(self, keys: dict[str, Any], identity: Identity) -> None:
        pass

    def step(self, context: Context) -> Progress | None:
        """Does one short piece of work: a message has come in, a consumer has room again, a time is reached. None is
        Progress.IDLE. Must not block. An exception ends this instance, which is then restarted as [supervisor] says."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    def waiting_for(self) -> str:
        """Why it is idle, where its channels do not show it, for `troupe status`."""
        return ""

    def report(self) -> Union[Mapping[str, float], Report]:
        """Gauges by name, or a Report."""
        return {}

    def save(self) -> Mapping[str, Union[int, Array]]:
        """What a checkpoint must hold. Messages that wait in inlets are saved for it."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Called before the first step with what save() gave, as integers and arrays."""


@dataclasses.dataclass(frozen=True)
class Queue:
    """A kind of role that ships, for main(roles={"NAME": Queue("TYPE")}): holds messages of one type, gives each to one
    consumer and holds producers back when it is full, as TensorFlow's queues do. Ports `in` and `out`; keys `order`
    ("fifo", "lifo", "shuffle" or "priority"), `capacity` and `min_after_dequeue`. priority: of a message, the lowest leaves
    first; without it that order cannot be chosen."""

    type: str
    priority: Callable[[Any], float] | None = None


@dataclasses.dataclass(frozen=True)
class _Described:
    doc: str
    inlets: list[Port]
    outlets: list[Port]
    keys: list[Key]
    completes_run: bool
    restart_from_checkpoint: bool
    quarantine: bool
    elastic: bool


def named(kind: Any, entries: Mapping[str, Any]) -> list[Any]:
    """Each entry as a Port or a Key that knows its name."""
    for name, entry in entries.items():
        default = entry.default if isinstance(entry, Key) else entry
        if kind is Key and not isinstance(default, (bool, int, float, str, list, tuple)):
            raise TroupeError(f'key "{name}": its default is {default!r}, expected a bool, a number, a string or a list of these', "invalid_argument")
    return [dataclasses.replace(entry if isinstance(entry, kind) else kind(entry), name=name) for name, entry in entries.items()]


def first_line(of: type) -> str:
    """What a class is for, in one line."""
    return (of.__doc__ or of.__name__).strip().splitlines()[0]


def describe(role: type[Role]) -> _Described:
    """What the core asks of a class."""
    if not (isinstance(role, type) and issubclass(role, Role)):
        raise TroupeError(f"{role!r} is no subclass of troupe.Role", "invalid_argument")
    for port in (ports := named(Port, role.inlets) + named(Port, role.outlets)):
        if port.kind not in ("stream", "latest", "request"):
            raise TroupeError(f'{role.__name__}: port "{port.name}" is of kind {port.kind!r}, expected stream, latest or request', "invalid_argument")
    inlets = len(role.inlets)
    return _Described(first_line(role), ports[:inlets], ports[inlets:], named(Key, role.keys), role.completes_run, role.restart_from_checkpoint,
                      role.quarantine, role.elastic)


def as_report(said: Union[Mapping[str, float], Report]) -> Report:
    """What the core takes of report()."""
    return said if isinstance(said, Report) else Report(gauges=said)


class Program:
    """What a user's program has beside what ships, by name: kinds of roles, types of messages that ports may name, with the
    most bytes of each, and kinds of learners (troupe.Learner). Whoever reads a run of it needs it too:
    `troupe.load(run).policy(program=program)`."""

    def __init__(self, *, roles: Mapping[str, Union[type[Role], Queue, SequenceReplayRole]] = {}, messages: Mapping[str, int] = {}, learners: Mapping[str, type] = {}) -> None:
        self.roles, self.messages, self.learners = dict(roles), dict(messages), dict(learners)
        for name, most in self.messages.items():
            if not isinstance(most, int):
                raise TroupeError(f'message "{name}": its most bytes are {most!r}, expected a whole number', "invalid_argument")

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Runs the command that argv (by default sys.argv) asks for, every one of `troupe`, and returns the exit code.

        Call it once, from the main thread, under `if __name__ == "__main__"`: other processes of a run start the same file.
        Raises TroupeError for what is no role or learner; other mistakes are printed, a line each, and give exit code 78.
        """
        if argv is not None and not argv:
            raise TroupeError("main: argv is empty, expected the program's name first", "invalid_argument")
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would wait for a Python that does not run
        return _core.main(self, list(sys.argv if argv is None else argv), [sys.executable, os.path.abspath(sys.argv[0])])


def main(*, roles: Mapping[str, Union[type[Role], Queue, SequenceReplayRole]] = {}, messages: Mapping[str, int] = {}, learners: Mapping[str, type] = {},
         argv: Sequence[str] | None = None) -> int:
    """Program(...).main(argv)."""
    return Program(roles=roles, messages=messages, learners=learners).main(argv)
