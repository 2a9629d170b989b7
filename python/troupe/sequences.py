"""Several replay tables whose items are sequences of shared time steps: what Reverb's server and TrajectoryWriter are.

    replay = troupe.SequenceReplay({"observation": ("float32", (17,)), "action": ("float32", (6,)), "reward": "float32"},
                                   {"recent": troupe.TableSpec(1000, sampler="uniform"), "whole": troupe.TableSpec(100)})
    with replay.writer(max_steps=1000) as writer:               # one for each environment
        writer.append({"observation": ..., "action": ..., "reward": ...})
        writer.create_item("recent", steps=8)                    # of the last 8 steps
        writer.create_item("whole")                              # of the episode so far
        writer.end_episode()
    batch = replay.sample("recent", 32)                          # batch.data["reward"]: [32, 8]

Each step is in memory once, whatever items of whichever tables have it, and goes with the last of them.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType

import numpy as np

from troupe import _core
from troupe.arrays import Array, as_array, as_strided
from troupe.error import TroupeError
from troupe.messages import SequenceSample
from troupe.replay import ColumnSpec, RateLimiter, _DEADLINE_S, _Rows, _column, _described, _limits, _read_image, _write_image
from troupe.roles import Context

_MAGIC = b"TRPSEQS1"


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A table of a SequenceReplay: the options of troupe.Table, by the same names.

    pattern: what its batches have, by default every column of all steps. Name -> (column of a step, which steps of an item):
    a slice without step, or one number, which leaves out the dimension of time; as Python's sequences take them.

        {"observation": ("observation", slice(0, -1)), "next_observation": ("observation", slice(1, None)), "last": ("reward", -1)}

    Steps are in memory once nevertheless. An item with fewer steps than the pattern names is refused."""

    max_items: int
    sampler: str = "uniform"
    remover: str = "fifo"
    priority_exponent: float = 1.0
    max_times_sampled: int = 0
    limiter: RateLimiter = RateLimiter()
    seed: int = 0
    pattern: Mapping[str, tuple[str, int | slice]] | None = None

    @classmethod
    def queue(cls, max_size: int) -> TableSpec:
        """Items leave in the order in which they came, once each; whoever is ahead waits."""
        return cls(max_size, sampler="fifo", max_times_sampled=1, limiter=RateLimiter.queue(max_size))

    @classmethod
    def stack(cls, max_size: int) -> TableSpec:
        """The newest item leaves first, each once."""
        return cls(max_size, sampler="lifo", remover="lifo", max_times_sampled=1, limiter=RateLimiter.queue(max_size))


def _tables(specs: Mapping[str, TableSpec]) -> list[tuple]:
    """As the core takes them."""
    return [(name, spec.max_items, spec.sampler, spec.remover, spec.priority_exponent, spec.max_times_sampled, _limits(spec.limiter), spec.seed)
            for name, spec in specs.items()]


def _patterns(specs: Mapping[str, TableSpec]) -> dict[str, list[tuple[str, str, int, int, bool]]]:
    """As the core takes them: name, column, first step, the one behind the last (0: the item's end), whether it is one."""
    return {name: [(column, of, *_steps(name, column, which)) for column, (of, which) in spec.pattern.items()]
            for name, spec in specs.items() if spec.pattern is not None}


def _steps(table: str, column: str, which: int | slice) -> tuple[int, int, bool]:
    if not isinstance(which, slice):
        return operator.index(which), 0, True
    if which.step not in (None, 1) or which.stop == 0:
        wrong = "its steps are none" if which.stop == 0 else f"got a step of {which.step}, expected none"
        raise TroupeError(f'table "{table}", pattern: column {column}: {which}: {wrong}', "invalid_argument")
    return which.start or 0, which.stop or 0, False


class SequenceReplay(_Rows):
    """step: name -> type, or (type, shape), of a time step. tables: by name. chunk_steps: steps that are kept or freed
    together; items that are much shorter keep more than they need. Made, used and closed by any threads. Raises TroupeError
    naming the option."""

    name = "steps"

    def __init__(self, step: Mapping[str, ColumnSpec], tables: Mapping[str, TableSpec], *, chunk_steps: int = 16) -> None:
        self._columns = [_column(*each) for each in step.items()]
        self._numbers = {name: number for number, name in enumerate(tables)}
        self._limiters = {name: spec.limiter for name, spec in tables.items()}
        self._max_items = {name: spec.max_items for name, spec in tables.items()}
        self._names = {name: list(step if spec.pattern is None else spec.pattern) for name, spec in tables.items()}
        # Writers' numbers come from the seed, and steps of different processes may meet in one by load().
        self._core = _core.SequenceTables(_described(self._columns), _tables(tables), _patterns(tables), chunk_steps, secrets.randbits(64))

    @property
    def tables(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._numbers)

    def writer(self, max_steps: int) -> SequenceWriter:
        """For one environment. max_steps: how far back its items may reach, for which so many steps are kept
        (num_keep_alive_refs)."""
        return SequenceWriter(self, max_steps)

    def sample(self, table: str, rows: int, timeout: float = _DEADLINE_S) -> SequenceSample:
        """Draws `rows` items with replacement, when the table's limiter admits them at once. Raises TimeoutError saying for
        what it waits."""
        columns, lengths, keys, probabilities, priorities, times, items = self._core.sample(self._number(table), rows, timeout)
        data = dict(zip(self._names[table], columns))
        return SequenceSample(data, keys, probabilities, priorities, times, items, lengths)

    def update_priorities(self, table: str, keys: Array, priorities: Array) -> int:
        """Returns how many of the keys were unknown, as their items have left meanwhile."""
        return self._core.update_priorities(self._number(table), as_array(keys, np.uint64), as_array(priorities, np.float64))

    def delete(self, table: str, keys: Array) -> int:
        """These items leave, and with them the steps that no other has. Returns how many of the keys were unknown."""
        return self._core.erase(self._number(table), as_array(keys, np.uint64))

    def reset(self, table: str) -> None:
        """All items of a table leave, and its limiter and counters begin anew. Open writers go on."""
        self._core.reset(self._number(table))

    def can_insert(self, table: str, rows: int = 1) -> bool:
        """Whether the table's limiter would admit so many items at once now."""
        return self._core.insertable(self._number(table), rows) >= rows

    def can_sample(self, table: str, rows: int = 1) -> bool:
        """As can_insert()."""
        return self._core.sampleable(self._number(table), rows) >= rows

    @property
    def info(self) -> dict:
        """What Reverb's server_info() says: "tables", name -> numbers as troupe.Table.info has them, with "max_items" and
        "limiter"; "steps" in memory, each once; "bytes" of all; "writers" that are open; "episodes" that have ended."""
        tables, *others = self._core.info
        described = {name: numbers | {"max_items": self._max_items[name], "limiter": self._limiters[name]}
                     for name, numbers in zip(self._numbers, tables)}
        return {"tables": described} | dict(zip(("steps", "bytes", "writers", "episodes"), others))

    def save(self, path: str | os.PathLike[str], tables: Sequence[str] | None = None) -> None:
        """One consistent image of some tables, by default all, with the steps of their items; open writers are not in it."""
        numbers = [self._number(name) for name in (self.tables if tables is None else tables)]
        _write_image(path, _MAGIC, self._core.save(numbers))

    def load(self, path: str | os.PathLike[str], tables: Sequence[str] | None = None) -> None:
        """Takes an image of as many tables, in this order, with the same columns and options; limiters and seeds may differ.
        They go on bit for bit, others stay as they are. Raises TroupeError, and nothing has changed."""
        numbers = [self._number(name) for name in (self.tables if tables is None else tables)]
        self._core.restore(numbers, _read_image(path, _MAGIC))

    def _number(self, table: str) -> int:
        if table not in self._numbers:
            raise TroupeError(f'no table "{table}", there are: {", ".join(self._numbers)}', "not_found")
        return self._numbers[table]


class _Writer(_Rows):
    """What writers have in common. `_core`: where steps go."""

    name = "steps"
    _episode_steps = 0

    def append(self, step: Mapping[str, Array]) -> None:
        """One step: name -> [...] by the shape of its column. Raises TroupeError naming the column."""
        self.extend({name: as_strided(value, None)[None] for name, value in step.items()})

    def extend(self, steps: Mapping[str, Array]) -> None:
        """Several, one after the other: name -> [n, ...]."""
        columns, count = self._ready(steps)
        self._append(columns, count)
        self._episode_steps += count

    def _append(self, columns: list[np.ndarray], count: int) -> None:
        raise NotImplementedError


class SequenceWriter(_Writer):
    """The steps of one environment, and items of them. Of one thread at a time. Leaving its block closes it, as being
    dropped does."""

    _number: int | None = None

    def __init__(self, replay: SequenceReplay, max_steps: int) -> None:
        self._replay, self._core, self._columns = replay, replay._core, replay._columns
        self._number = self._core.open(max_steps)

    def _append(self, columns: list[np.ndarray], count: int) -> None:
        self._core.append(self._open(), columns, count)

    def create_item(self, table: str, steps: int | None = None, priority: float = 1.0, timeout: float = _DEADLINE_S) -> int:
        """An item of the last `steps` steps of the episode, by default of all of it; its key. Waits until the table's limiter
        admits it. Raises TroupeError (more steps than max_steps or the episode has, fewer than the table's pattern names), or
        TimeoutError saying for what it waits."""
        wanted = self._episode_steps if steps is None else steps
        return self._core.insert(self._open(), self._replay._number(table), wanted, priority, timeout)

    def end_episode(self) -> None:
        """No item reaches over it."""
        self._core.end_episode(self._open())
        self._episode_steps = 0

    def close(self) -> None:
        """Its steps stay in their items. Once more is no error."""
        if self._number is not None:
            self._core.close(self._number)
            self._number = None

    def _open(self) -> int:
        if self._number is None:
            raise TroupeError("the writer is closed", "not_found")
        return self._number

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> SequenceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclasses.dataclass(frozen=True)
class SequenceReplayRole:
    """A kind of role that ships, for main(roles={"NAME": SequenceReplayRole(step, tables)}): a SequenceReplay for all roles
    of a run. Ports: `steps` (Steps: what roles write with a StepsWriter each), `samples` (requests: a SampleRequest, answered
    by a SequenceSample) and, where a table goes by priorities, `priorities` (Priorities that name their table). Keys: TABLE_max_items of each table. Everything
    goes into the run's checkpoints, and each table's numbers into its metrics."""

    step: Mapping[str, ColumnSpec]
    tables: Mapping[str, TableSpec]
    chunk_steps: int = 16


def describe_tables(role: SequenceReplayRole) -> tuple[list, list[tuple], dict, int]:
    """What the core asks of a SequenceReplayRole."""
    return _described([_column(*each) for each in role.step.items()]), _tables(role.tables), _patterns(role.tables), role.chunk_steps


class StepsWriter(_Writer):
    """The writing end of a SequenceReplayRole, one for each environment of a role, whose outlet is of type "Steps".

        self.writer = troupe.StepsWriter({"observation": ("float32", (17,)), "reward": "float32"}, max_steps=80)
        ...                                                  # in step(context)
        if self.writer.flush(context):                       # what was gathered is on its way, so there is room for more
            self.writer.append({"observation": ..., "reward": ...})
            self.writer.create_item("recent", steps=8)

    step, max_steps: as SequenceReplay and its writer() have them. number: unlike that of any other writer of the run, by
    default by chance; runs under --deterministic need one of their own making, from Identity.seed and incarnation."""

    def __init__(self, step: Mapping[str, ColumnSpec], max_steps: int, number: int | None = None) -> None:
        self._columns = [_column(*each) for each in step.items()]
        self._core = _core.StepsWriter(_described(self._columns), max_steps, secrets.randbits(63) if number is None else number)

    def _append(self, columns: list[np.ndarray], count: int) -> None:
        self._core.append(columns, count)

    def create_item(self, table: str, steps: int | None = None, priority: float = 1.0) -> None:
        """An item of the last `steps` steps of the episode, by default of all of it. The table's limiter decides when it
        comes in, and holds up what this role sends later. Raises TroupeError (more steps than max_steps or the episode has)."""
        self._core.create_item(table, self._episode_steps if steps is None else steps, priority)

    def end_episode(self) -> None:
        """No item reaches over it."""
        self._core.end_episode()
        self._episode_steps = 0

    def close(self) -> None:
        """Nothing comes after the next flush()."""
        self._core.close()

    def flush(self, context: Context, outlet: str = "steps") -> bool:
        """Sends what was gathered, all of a writer to the same instance. False: there is no room yet, and it stays."""
        return context.flush_steps(self._core, outlet)
