"""What travels on channels between roles. A type that a program registers itself is bytes; these are Troupe's own.

All arrays are copies: the reader's to keep and to change, and they go to other libraries by DLPack.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from troupe.arrays import Array, as_array, as_column


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows that were drawn from a table, [n, ...] each: a message of type Batch, and what Table.sample() returns."""

    data: dict[str, np.ndarray]
    keys: np.ndarray  # uint64
    probabilities: np.ndarray  # with which each was drawn, for importance weights
    priorities: np.ndarray
    times_sampled: np.ndarray  # this draw included
    table_size: int  # when drawn


@dataclasses.dataclass(frozen=True)
class SequenceSample(Sample):
    """Sequences that were drawn: data has name -> [n, T, ...], T the longest of them, and zeros behind those that are shorter.
    Columns of a table's pattern have as many steps as it gives them of the longest, or one without T."""

    lengths: np.ndarray  # [n] integers: steps of each item


@dataclasses.dataclass(frozen=True)
class SampleRequest:
    """What a role asks a table for, over a channel of requests, whose answer is a Sample, of a SequenceReplayRole a
    SequenceSample. rows: 0 for none, and an answer at once: what Table.info says, a dict. timeout: seconds after which it is
    asked for no longer."""

    table: str
    rows: int
    timeout: float = 10.0


class Trajectory:
    """Items for replay: name -> [n, ...], float32, float64, int32, int64 or uint8 (bool is kept as uint8), with a priority
    each. parameters_version: that acted; env_steps: taken since the trajectory before."""

    def __init__(self, data: Mapping[str, Array], priorities: Array | None = None, parameters_version: int = 0, env_steps: int = 0) -> None:
        self.data = data
        self.priorities = None if priorities is None else as_array(priorities, np.float64)
        self.parameters_version, self.env_steps = parameters_version, env_steps

    def columns(self) -> list[tuple[str, np.ndarray]]:
        """As the core takes them."""
        return [(name, as_column(column)) for name, column in self.data.items()]


class Parameters:
    """What actors act with: one flat float32 buffer. layout_hash: of its names, shapes and places; who has another network
    refuses it."""

    def __init__(self, version: int, values: Array, layout_hash: int = 0) -> None:
        self.version, self.values, self.layout_hash = version, as_array(values, np.float32), layout_hash


class Priorities:
    """New priorities of items, by the keys of a Sample. table: of a SequenceReplayRole. deletes: keys of items that leave
    then. reset: in the end every item leaves, and limiter and counters begin anew."""

    def __init__(self, keys: Array, priorities: Array, table: str = "", deletes: Array = (), reset: bool = False) -> None:
        self.keys, self.priorities, self.table = as_array(keys, np.uint64), as_array(priorities, np.float64), table
        self.deletes, self.reset = as_array(deletes, np.uint64), reset
