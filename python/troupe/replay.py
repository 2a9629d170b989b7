"""Replay tables for programs of one's own: a learner in PyTorch or JAX, or whatever else is written in Python.

    table = troupe.Table({"observation": ("float32", (17,)), "reward": "float32"}, max_items=1_000_000,
                         sampler="prioritized", limiter=troupe.RateLimiter.min_size(1000))
    table.insert({"observation": observations, "reward": rewards})       # [n, 17] and [n]
    batch = table.sample(256)
    table.update_priorities(batch.keys, new_priorities)

Semantics are Reverb's; the table is that of Troupe's own runs. It lives in the process and may be used by many threads.
"""

from __future__ import annotations

import dataclasses
import numbers
import os
import pathlib
import struct
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Union

import numpy as np
import numpy.typing as npt

from troupe import _core
from troupe.arrays import Array, as_array
from troupe.error import TroupeError
from troupe.messages import Sample
from troupe.roles import Program

# Gets keys [n] uint64, priorities [n] float64 and times sampled [n] int32 of the items that an operation was about.
ItemsCallback = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
# A type, or (type, shape).
ColumnSpec = Union[npt.DTypeLike, tuple[npt.DTypeLike, Sequence[int]]]

_DEADLINE_S = 60.0
_ROWS_A_MESSAGE = 64  # of a client: the limiter admits messages in turns with those of env actors
_MAGIC = b"TRPTABL1"


@dataclasses.dataclass(frozen=True)
class RateLimiter:
    """Paces inserts against samples: inserts * samples_per_insert - samples stays within min_diff and max_diff, and
    nothing is sampled before min_size_to_sample items are there. Reverb's, by its names."""

    samples_per_insert: float = 1.0
    min_size_to_sample: int = 1
    min_diff: float = -sys.float_info.max
    max_diff: float = sys.float_info.max

    @classmethod
    def min_size(cls, min_size_to_sample: int) -> RateLimiter:
        """Samples wait for so many items; inserts never wait."""
        return cls(min_size_to_sample=min_size_to_sample)

    @classmethod
    def sample_to_insert_ratio(cls, samples_per_insert: float, min_size_to_sample: int, error_buffer: float | tuple[float, float]) -> RateLimiter:
        """error_buffer: how far samples may be off, around where they stand when min_size_to_sample is reached; or the
        range (min_diff, max_diff) itself. Raises ValueError for one that could block both sides for ever."""
        if isinstance(error_buffer, numbers.Real):
            offset = samples_per_insert * min_size_to_sample
            low, high = offset - error_buffer, offset + error_buffer
        else:
            low, high = error_buffer
        if high - low < 2 * max(1.0, samples_per_insert):
            raise ValueError(f"error_buffer: got {error_buffer}, expected at least max(1, samples_per_insert) on either side")
        if low > samples_per_insert * min_size_to_sample:
            raise ValueError(f"error_buffer: got {error_buffer}, a range above samples_per_insert * min_size_to_sample")
        return cls(samples_per_insert, min_size_to_sample, low, high)

    @classmethod
    def queue(cls, size: int) -> RateLimiter:
        """For items that are sampled once: at most `size` of them wait."""
        return cls(min_diff=0.0, max_diff=float(size))


def _column(name, spec):
    dtype, shape = (spec, ()) if isinstance(spec, (str, type, np.dtype)) else spec
    dtype = np.dtype(dtype)
    return name, np.dtype(np.uint8) if dtype == bool else dtype, tuple(int(size) for size in shape)


def _described(columns):
    """As the core takes them."""
    return [(name, dtype.name, list(shape)) for name, dtype, shape in columns]


def _most_rows(limiter):
    """At once, that it could ever admit."""
    return max(limiter.min_size_to_sample, (limiter.max_diff - limiter.min_diff) / limiter.samples_per_insert)


def _limits(limiter):
    return limiter.samples_per_insert, limiter.min_size_to_sample, limiter.min_diff, limiter.max_diff


def _write_image(path, magic, chunks):
    """Chunks with their sizes and checksums, in the place of what was there."""
    path = pathlib.Path(path)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(magic)
        for chunk in chunks:
            file.write(struct.pack("<QI", len(chunk), zlib.crc32(chunk)))
            file.write(chunk)
    partial.replace(path)


def _read_image(path, magic):
    image, chunks = memoryview(pathlib.Path(path).read_bytes()), []
    if image[: len(magic)] != magic:
        raise TroupeError(f"{path}: no image of {'a table' if magic == _MAGIC else 'sequence tables'}", "corrupt")
    at = len(magic)
    while at < len(image):
        size, crc = struct.unpack_from("<QI", image, at) if at + 12 <= len(image) else (-1, 0)
        chunk = image[at + 12 : at + 12 + size] if size >= 0 else b""
        if len(chunk) != size or zlib.crc32(chunk) != crc:
            raise TroupeError(f"{path}: damaged or cut short at byte {at}", "corrupt")
        chunks.append(np.frombuffer(chunk, np.uint8))
        at += 12 + size
    return chunks


class _Rows:
    """Rows of columns as the core takes them, for tables and clients of tables. `_columns`: name, type, shape of each."""

    name: str
    _columns: list[tuple[str, np.dtype, tuple[int, ...]]]

    def _ready(self, data: Mapping[str, Array]) -> tuple[list[np.ndarray], int]:
        """Contiguous columns in their order, and how many rows they have."""
        unknown = data.keys() - {name for name, _, _ in self._columns}
        if unknown:
            raise TroupeError(f'table "{self.name}": insert: unknown columns {sorted(unknown)}', "shape_mismatch")
        columns: list[np.ndarray] = []
        for name, dtype, shape in self._columns:
            if name not in data:
                raise TroupeError(f'table "{self.name}": insert: there is no column {name}', "shape_mismatch")
            column = as_array(data[name], dtype)
            rows = len(columns[0]) if columns else len(column)
            if column.shape != (rows, *shape):
                raise TroupeError(f'table "{self.name}": insert: {name} has shape {column.shape}, expected {(rows, *shape)}', "shape_mismatch")
            columns.append(column)
        return columns, len(columns[0]) if columns else 0

    def _drawn(self, drawn: tuple) -> Sample:
        columns, *about = drawn
        return Sample(dict(zip([name for name, _, _ in self._columns], columns)), *about)


class Table(_Rows):
    """columns: name -> type, or (type, shape), of an item: float32, float64, int32, int64, uint8, or bool, which is kept as
    uint8. sampler, remover: "uniform", "prioritized", "fifo", "lifo", "max_heap" or "min_heap". An insert into a full
    table makes the remover choose an item to leave. max_times_sampled: an item leaves after so many draws; 0: never.
    on_insert, on_sample, on_update, on_delete: called with the items that an operation was about, in this order, once it is
    done; they may call the table, and what they raise is raised by the operation, which has happened nevertheless. An item
    that came and left again at once, as the remover chose it, is never heard of. Operations of
    several threads may be told in another order than they happened in. Reverb's table extensions.
    Raises TroupeError naming the option."""

    def __init__(self, columns: Mapping[str, ColumnSpec], max_items: int, *, sampler: str = "uniform", remover: str = "fifo",
                 priority_exponent: float = 1.0, max_times_sampled: int = 0, limiter: RateLimiter = RateLimiter(), seed: int = 0,
                 name: str = "replay", on_insert: ItemsCallback | None = None, on_sample: ItemsCallback | None = None,
                 on_update: ItemsCallback | None = None, on_delete: ItemsCallback | None = None) -> None:
        self.name = name
        self._columns = [_column(*each) for each in columns.items()]
        for callback, of in ((on_insert, "on_insert"), (on_sample, "on_sample"), (on_update, "on_update"), (on_delete, "on_delete")):
            if callback is not None and not callable(callback):
                raise TroupeError(f'table "{name}": {of} is {callback!r}, expected a function', "invalid_argument")
        self._core = _core.Table(name, _described(self._columns), max_items, sampler, remover, priority_exponent, max_times_sampled, _limits(limiter), seed,
                                 [on_insert, on_sample, on_update, on_delete])
        self._most_rows = _most_rows(limiter)

    @classmethod
    def queue(cls, columns: Mapping[str, ColumnSpec], max_size: int, *, name: str = "queue") -> Table:
        """Items leave in the order in which they came, once each; whoever is ahead waits. TensorFlow's FIFOQueue."""
        return cls(columns, max_size, sampler="fifo", max_times_sampled=1, limiter=RateLimiter.queue(max_size), name=name)

    @classmethod
    def stack(cls, columns: Mapping[str, ColumnSpec], max_size: int, *, name: str = "stack") -> Table:
        """The newest item leaves first, each once."""
        return cls(columns, max_size, sampler="lifo", remover="lifo", max_times_sampled=1, limiter=RateLimiter.queue(max_size), name=name)

    @classmethod
    def priority_queue(cls, columns: Mapping[str, ColumnSpec], max_size: int, *, name: str = "priority_queue") -> Table:
        """The item of the lowest priority leaves first, each once. TensorFlow's PriorityQueue."""
        return cls(columns, max_size, sampler="min_heap", max_times_sampled=1, limiter=RateLimiter.queue(max_size), name=name)

    @classmethod
    def random_shuffle_queue(cls, columns: Mapping[str, ColumnSpec], max_size: int, min_after_dequeue: int = 0, *, seed: int = 0,
                             name: str = "random_shuffle_queue") -> Table:
        """Any item leaves, each once, while min_after_dequeue stay behind. TensorFlow's RandomShuffleQueue."""
        limiter = RateLimiter(1.0, min_after_dequeue + 1, 0.0, float(max_size))
        return cls(columns, max_size, sampler="uniform", max_times_sampled=1, limiter=limiter, seed=seed, name=name)

    def insert(self, data: Mapping[str, Array], priorities: Array | None = None, timeout: float = _DEADLINE_S) -> int:
        """Inserts rows: name -> [n, ...], of NumPy or by DLPack; priorities: [n], by default 1. All or none, when the
        limiter admits them. Returns the first row's key, which the others' follow by one each. Raises TroupeError naming
        the column, or for more rows than the limiter could ever admit, or TimeoutError saying for what it waits."""
        given = None if priorities is None else as_array(priorities, np.float64)
        columns, rows = self._ready(data)
        if rows > self._most_rows:
            raise TroupeError(f'table "{self.name}": insert: {rows} rows at once, of which its limiter admits {self._most_rows:g} at most', "invalid_argument")
        return self._core.insert(columns, rows, given, timeout)

    def sample(self, rows: int, timeout: float = _DEADLINE_S) -> Sample:
        """Draws `rows` items with replacement, when the limiter admits them at once: a Sample. Raises TimeoutError saying
        for what it waits."""
        return self._drawn(self._core.sample(rows, timeout))

    def update_priorities(self, keys: Array, priorities: Array) -> int:
        """Returns how many of the keys were unknown, as their items have left meanwhile."""
        return self._core.update_priorities(as_array(keys, np.uint64), as_array(priorities, np.float64))

    def delete(self, keys: Array) -> int:
        """These items leave, which the limiter counts like those that the remover chose. Returns how many of the keys were
        unknown."""
        return self._core.erase(as_array(keys, np.uint64))

    def reset(self) -> None:
        """All items leave, and limiter and counters begin anew. Keys go on: those of before are unknown from now on."""
        self._core.reset()

    def can_insert(self, rows: int = 1) -> bool:
        """Whether so many would be admitted at once now."""
        return self._core.insertable(rows) >= rows

    def can_sample(self, rows: int = 1) -> bool:
        """Whether so many would be admitted at once now."""
        return self._core.sampleable(rows) >= rows

    def __len__(self) -> int:
        return self._core.info["items"]

    @property
    def info(self) -> dict[str, int]:
        """Numbers: "items", "bytes" of them, and since the table was made "inserts", "samples" and "evictions"."""
        return self._core.info

    def save(self, path: str | os.PathLike[str]) -> None:
        """One consistent image of items, counters and random stream, from which load() goes on bit for bit."""
        _write_image(path, _MAGIC, self._core.save())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes the image of a table with the same columns and options; limiter and seed may differ. Raises TroupeError,
        and the table is as it was."""
        self._core.restore(_read_image(path, _MAGIC))


class ReplayClient(_Rows):
    """The replay of a run, from a program outside of it: this process becomes a node that hosts the role `external`, which
    the run's configuration admits by `replay.external = true`. All calls may come from several threads.

        client = troupe.ReplayClient("config.toml", token="join.token")    # from `troupe token RUN --role external`
        client = troupe.ReplayClient(run="runs/a")                         # on a host that shares the run's folder
        client.insert({"observation": ..., "action": ..., "reward": ..., "discount": ..., "next_observation": ...})
        batch = client.sample(256)
        client.update_priorities(batch.keys, new_priorities)

    config: the run's; by default that in `run`. directory: where the certificate is kept that the token is traded for, by
    default TOKEN.d; with it a program may come back for 30 days. name: of the node, with `run`. host: by which the run's
    nodes reach this one; by default 127.0.0.1 for a run of this host, else the host name. what: which agent's replay, if
    several take clients. program: whose run it is, if not of what ships alone. timeout: until the run must have taken this program in. Raises TroupeError (no such run, a token
    that was used, another configuration) or TimeoutError.
    """

    def __init__(self, config: str | os.PathLike[str] | None = None, *, token: str | os.PathLike[str] | None = None,
                 run: str | os.PathLike[str] | None = None, directory: str | os.PathLike[str] | None = None, name: str | None = None,
                 host: str = "", what: str = "", timeout: float = _DEADLINE_S,
                 program: Program | None = None) -> None:
        if (token is None) == (run is None):
            raise TroupeError("ReplayClient: expected either a token or a run's folder", "invalid_argument")
        if run is not None:
            config, directory, name = config or pathlib.Path(run) / "config.toml", run, name or f"client-{os.getpid()}"
        elif config is None:
            raise TroupeError("ReplayClient: with a token, expected the run's configuration", "invalid_argument")
        self.name = "replay"
        self._core = _core.ReplayClient(os.fspath(config), os.fspath(token or ""), os.fspath(run or ""), os.fspath(directory or f"{token}.d"),
                                        name or "", host, what, timeout, program)
        self._columns = [(column, np.dtype(dtype), tuple(shape)) for column, dtype, shape in self._core.columns]

    @property
    def columns(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Of an item: column -> type and shape."""
        return {name: (dtype.name, shape) for name, dtype, shape in self._columns}

    def insert(self, data: Mapping[str, Array], priorities: Array | None = None, *, env_steps: int = 0, timeout: float = _DEADLINE_S) -> None:
        """Sends rows, name -> [n, ...], to replay, which holds the sender up as its rate limiter says. They are on their way
        when this returns, in order, and come in in turns with those of the run's env actors. env_steps: which the run counts.
        Raises TroupeError naming the column, or TimeoutError saying how many rows were sent before there was no room."""
        given = None if priorities is None else as_array(priorities, np.float64)
        columns, rows = self._ready(data)
        if given is not None and given.shape != (rows,):
            raise TroupeError(f"insert: priorities have shape {given.shape}, expected {(rows,)}", "shape_mismatch")
        if env_steps < 0:
            raise TroupeError(f"insert: env_steps is {env_steps}, expected 0 or more", "invalid_argument")
        for (name, *_), column in zip(self._columns, columns):
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                raise TroupeError(f"insert: {name} has numbers that are not finite", "invalid_argument")
        deadline = time.monotonic() + timeout
        for begin in range(0, max(rows, 1), _ROWS_A_MESSAGE):
            part = slice(begin, min(begin + _ROWS_A_MESSAGE, rows))
            try:
                self._core.insert([column[part] for column in columns], part.stop - begin, None if given is None else given[part], env_steps if begin == 0 else 0,
                                  max(deadline - time.monotonic(), 0))
            except TimeoutError as error:
                raise TimeoutError(f"{error} ({begin} of {rows} rows were sent)") from None

    def sample(self, rows: int, timeout: float = _DEADLINE_S) -> Sample:
        """Draws `rows` items with replacement, in turns with the run's learners. Of several shards it takes one, in proportion
        to their mass. Raises TimeoutError, or TroupeError for more rows than the limiter could ever admit."""
        return self._drawn(self._core.sample(rows, timeout))

    def info(self, timeout: float = _DEADLINE_S) -> dict[str, int]:
        """As Table.info, of all shards together: what Reverb's server_info() says. Raises TimeoutError."""
        return self._core.info(timeout)

    def update_priorities(self, keys: Array, priorities: Array, timeout: float = _DEADLINE_S) -> None:
        """New priorities for rows of a Sample. Items that have left meanwhile are passed over."""
        self._core.update_priorities(as_array(keys, np.uint64), as_array(priorities, np.float64), timeout)

    def delete(self, keys: Array, timeout: float = _DEADLINE_S) -> None:
        """Rows of a Sample leave the table, once replay hears of it. Items that have left meanwhile are passed over. Raises
        TroupeError also where a journal keeps the table, any `replay.durability` but "off"."""
        self._core.erase(as_array(keys, np.uint64), timeout)

    def reset(self, timeout: float = _DEADLINE_S) -> None:
        """All items leave, and limiter and counters begin anew, for everyone. Raises as delete()."""
        self._core.reset(timeout)

    def close(self) -> None:
        """Leaves the run, which goes on."""
        self._core.close()

    def __enter__(self) -> ReplayClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
