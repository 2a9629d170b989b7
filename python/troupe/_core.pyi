from collections.abc import Callable, Mapping, Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray


def environment_names() -> list[str]:
    """Names of the environments that ship, sorted."""

class VectorEnv:
    """
    Instances of one environment, stepped together on a few threads. Its arrays are views of memory that the next call writes over. Not thread-safe.
    """

    def __init__(self, name: str, count: int = 1, threads: int = 1, seed: int = 0) -> None:
        """
        Raises TroupeError for an unknown name, naming the nearest, and for numbers out of range.
        """

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int: ...

    @property
    def episode_steps(self) -> int:
        """The time limit in steps."""

    @property
    def control_dt(self) -> float:
        """Seconds a step."""

    @property
    def cameras(self) -> list[str]: ...

    @property
    def columns(self) -> list[tuple[str, str, list[int]]]:
        """Of an observation, in the order of its bytes: name, type, shape."""

    @property
    def action(self) -> tuple[str, str, list[int]]:
        """Name, type and shape."""

    @property
    def action_bounds(self) -> tuple[list[float], list[float]]:
        """
        The lowest and the highest of each number; empty where actions are choices.
        """

    @property
    def action_choices(self) -> int:
        """How many; 0 where actions are numbers."""

    def advance(self, moves: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], actions: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None:
        """
        Moves each instance: 0 rests, 1 resets, 2 steps with its row of actions' bytes. Without Python's lock. Raises TroupeError naming the first instance that failed; the others have moved.
        """

    def step(self, actions: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple:
        """
        Steps each instance with its row of actions' bytes, and resets those that have ended instead. Returns arrays of their own: a list of the columns, [count, ...] each; rewards, float64; terminations and truncations, bool.
        """

    def reset(self, index: int, seed: int) -> None:
        """Begins an episode of one instance that follows from the seed alone."""

    def render(self, index: int, height: int = 240, width: int = 320, camera: str = '0') -> NDArray[numpy.uint8]:
        """RGB, uint8 [height, width, 3]."""

    @property
    def observations(self) -> Annotated[NDArray[numpy.uint8], dict(writable=False)]:
        """uint8 [count, bytes of all columns]."""

    @property
    def rewards(self) -> Annotated[NDArray[numpy.float64], dict(writable=False)]:
        """float64 [count]."""

    @property
    def discounts(self) -> Annotated[NDArray[numpy.float64], dict(writable=False)]:
        """float64 [count]: 0 where the task ended, 1 at a time limit."""

    @property
    def types(self) -> Annotated[NDArray[numpy.uint8], dict(writable=False)]:
        """uint8 [count], dm_env's StepType: 0 first, 1 mid, 2 last."""

class Policy:
    """
    What a run's agent has learnt, acting without exploration. Not thread-safe.
    """

    def __init__(self, directory: str, what: str = '', rows: int | None = None, program: object | None = None) -> None:
        """
        From the newest whole checkpoint of a run; `what` names one of several agents. Raises TroupeError.
        """

    @property
    def environment(self) -> str: ...

    @property
    def step(self) -> int:
        """How many steps it has learnt."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> list[tuple[str, str, list[int]]]:
        """Of an observation, in the order of its bytes: name, type, shape."""

    @property
    def given(self) -> list[tuple[str, str, list[int]]]:
        """As columns, of an observation before the algorithm flattens it."""

    @property
    def action(self) -> tuple[str, str, list[int]]:
        """Name, type and shape."""

    def act(self, observations: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], first: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> NDArray:
        """
        The action, [rows, ...] with rows, for the bytes of all columns, row by row; first: uint8 [rows], 1 where an episode begins, by default at the first call. Without Python's lock.
        """

class Table:
    """
    A replay table for the threads of a process; troupe.Table is what users have of it.
    """

    def __init__(self, name: str, columns: Sequence[tuple[str, str, Sequence[int]]], max_items: int, sampler: str, remover: str, priority_exponent: float, max_times_sampled: int, limits: tuple[float, int, float, float], seed: int, callbacks: Sequence[object]) -> None:
        """Raises TroupeError naming the option."""

    def insert(self, columns: Sequence[Annotated[NDArray, dict(order='C', device='cpu', writable=False)]], rows: int, priorities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, timeout: float) -> int:
        """
        Copies rows in, all or none, when the limiter admits them, and returns the first one's key. Without Python's lock. Raises TroupeError, or TimeoutError saying for what it waits.
        """

    def sample(self, rows: int, timeout: float) -> tuple:
        """
        Draws with replacement when the limiter admits it: a list of the columns, keys, probabilities, priorities, times sampled, and how many items there were. Without Python's lock. Raises as insert().
        """

    def update_priorities(self, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], priorities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
        """
        Returns how many keys were unknown. Raises TroupeError, and nothing has changed.
        """

    def erase(self, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int:
        """Returns how many keys were unknown."""

    def reset(self) -> None: ...

    def insertable(self, wanted: int) -> int:
        """How many rows at most may be inserted at once now."""

    def sampleable(self, wanted: int) -> int:
        """How many rows at most may be sampled at once now."""

    @property
    def info(self) -> dict:
        """Items, bytes of them, inserts, samples, evictions."""

    def save(self) -> list:
        """One consistent image: chunks of bytes."""

    def restore(self, chunks: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> None:
        """
        Takes an image of a table of the same kind. Raises TroupeError, and the table is as it was.
        """

class StepsWriter:
    """Gathers steps for a role; troupe.StepsWriter is what users have of it."""

    def __init__(self, columns: Sequence[tuple[str, str, Sequence[int]]], max_steps: int, number: int) -> None:
        """Raises TroupeError."""

    def append(self, columns: Sequence[Annotated[NDArray, dict(order='C', device='cpu', writable=False)]], rows: int) -> None:
        """Raises TroupeError."""

    def create_item(self, table: str, steps: int, priority: float) -> None:
        """Raises TroupeError."""

    def end_episode(self) -> None: ...

    def close(self) -> None: ...

class SequenceTables:
    """
    Tables over shared steps; troupe.SequenceReplay is what users have of them. Tables go by their number.
    """

    def __init__(self, columns: Sequence[tuple[str, str, Sequence[int]]], tables: Sequence[tuple[str, int, str, str, float, int, tuple[float, int, float, float], int]], patterns: Mapping[str, Sequence[tuple[str, str, int, int, bool]]], chunk_steps: int, seed: int) -> None:
        """Raises TroupeError naming the option."""

    def open(self, max_steps: int) -> int:
        """A new writer's number."""

    def close(self, writer: int) -> None: ...

    def append(self, writer: int, columns: Sequence[Annotated[NDArray, dict(order='C', device='cpu', writable=False)]], rows: int) -> None:
        """Raises TroupeError."""

    def end_episode(self, writer: int) -> None: ...

    def insert(self, writer: int, table: int, steps: int, priority: float, timeout: float) -> int:
        """
        An item of the last steps; its key. Raises TroupeError, or TimeoutError saying for what it waits.
        """

    def sample(self, table: int, rows: int, timeout: float) -> tuple:
        """
        Columns [rows, steps, ...] of the table's pattern, lengths, keys, probabilities, priorities, times sampled, items there were.
        """

    def update_priorities(self, table: int, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], priorities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def erase(self, table: int, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> int: ...

    def reset(self, table: int) -> None: ...

    def insertable(self, table: int, wanted: int) -> int: ...

    def sampleable(self, table: int, wanted: int) -> int: ...

    @property
    def info(self) -> tuple:
        """
        Of each table items, bytes, inserts, samples, evictions; steps, bytes of all, writers, episodes.
        """

    def save(self, tables: Sequence[int]) -> list:
        """One consistent image of these tables: chunks of bytes."""

    def restore(self, tables: Sequence[int], chunks: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> None:
        """Raises TroupeError, and everything is as it was."""

class ReplayClient:
    """
    A node of a run, for its replay; troupe.ReplayClient is what users have of it.
    """

    def __init__(self, config: str, token: str, run: str, directory: str, name: str, host: str, what: str, timeout: float, program: object | None) -> None:
        """
        Returns when the run has taken this node in. Raises TroupeError, or TimeoutError.
        """

    @property
    def columns(self) -> list[tuple[str, str, list[int]]]:
        """Of an item: name, type, shape."""

    def insert(self, columns: Sequence[Annotated[NDArray, dict(order='C', device='cpu', writable=False)]], rows: int, priorities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, env_steps: int, timeout: float) -> None:
        """
        Sends rows when there is room. Without Python's lock. Raises TroupeError, or TimeoutError.
        """

    def sample(self, rows: int, timeout: float) -> tuple:
        """
        A list of the columns, keys, probabilities, priorities, times sampled, and how many items the shard had. Without Python's lock. Raises as insert().
        """

    def info(self, timeout: float) -> dict:
        """As Table's, of all shards together. Raises as insert()."""

    def update_priorities(self, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], priorities: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], timeout: float) -> None:
        """Sends them when there is room. Raises as insert()."""

    def erase(self, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], timeout: float) -> None:
        """As update_priorities()."""

    def reset(self, timeout: float) -> None:
        """As update_priorities()."""

    def close(self) -> None:
        """Leaves the run."""

class Progress(enum.Enum):
    """What step() says about the next call."""

    MORE = 0
    """There is more to do now."""

    IDLE = 1
    """
    Nothing until a message or room for one comes, or the time of wake_after().
    """

    DONE = 2
    """This instance has finished its work."""

class Inlet:
    """The taking end of a channel."""

    @property
    def empty(self) -> bool: ...

    def take(self) -> object:
        """
        The oldest message (of a `latest` channel the newest), or None when there is none. One that makes no sense is dropped, counted, and its sender named.
        """

class Outlet:
    """The sending end of a channel."""

    @property
    def ready(self) -> bool:
        """Whether a consumer has room."""

    @property
    def consumers(self) -> int: ...

    def ready_for(self, consumer: int) -> bool: ...

    def send(self, message: object | None, consumer: int | None = None) -> None:
        """
        Sends to the next consumer that has room (of a `latest` channel to all), or to this one. Raises TroupeError when there is no room.
        """

class Caller:
    """The calling end of a channel of requests."""

    @property
    def ready(self) -> bool: ...

    def call(self, request: object | None, reply: Callable, timeout: float = 10.0) -> None:
        """
        reply(answer, None) is called once, before the next step, or reply(None, reason) after `timeout` seconds or when nobody answers.
        """

class Server:
    """The serving end of a channel of requests."""

    @property
    def empty(self) -> bool: ...

    def take(self) -> object:
        """
        (request, answer): answer(message) must be called once, now or later. None when there is none.
        """

class Context:
    """What a role may touch in a step. Of no use afterwards."""

    def inlet(self, name: str) -> Inlet: ...

    def outlet(self, name: str) -> Outlet: ...

    def caller(self, name: str) -> Caller: ...

    def server(self, name: str) -> Server: ...

    @property
    def time(self) -> float:
        """Seconds by the run's clock, which only grows."""

    def wake_after(self, seconds: float) -> None:
        """step() is called again after so long at the latest."""

    def flush_steps(self, writer: StepsWriter, outlet: str) -> bool:
        """What troupe.StepsWriter.flush() calls."""

    def alive(self, role: str) -> bool:
        """Whether an instance of that role is up and not done."""

def main(program: object, arguments: Sequence[str], command: Sequence[str]) -> int:
    """
    Runs the command that `arguments` ask for, their first being the program's name, and returns the exit code. command: how another process of the program is started.
    """
