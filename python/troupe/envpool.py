"""Troupe's environments behind EnvPool's interface: `import troupe.envpool`, then

    envs = troupe.envpool.make("cheetah-run", num_envs=64, batch_size=16)
    envs.async_reset()
    while True:
        observations, rewards, terminations, truncations, info = envs.recv()
        envs.send(policy(observations), info["env_id"])

As there, recv() returns the batch that is done first while the others go on, and an instance whose episode has ended is
reset by its next step. Instances are in groups of batch_size that stay together, so what is sent is for the instances
of one batch that was received.
"""

from __future__ import annotations

import concurrent.futures
import os
import queue

from typing import Union

import numpy as np
import numpy.typing as npt

from troupe import _core, gym
from troupe.arrays import Array, Views
from troupe.error import TroupeError

Observations = Union[np.ndarray, dict[str, np.ndarray]]
Step = tuple[Observations, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]

_DEADLINE_S = 60.0


class _Group:
    """Instances that step together, and what they did last."""

    def __init__(self, name, first, count, threads, seed):
        self.views = Views(_core.VectorEnv(name, count, threads))
        self.ids = np.arange(first, first + count, dtype=np.int32)
        self.elapsed = np.zeros(count, np.int32)
        self._ended = np.zeros(count, bool)
        self._seed = seed
        self.waits = True  # for what to do next

    def check_waits(self):
        if not self.waits:
            raise TroupeError(f"instances {self.ids[0]} to {self.ids[-1]} are under way, and are to be received first", "unavailable")

    def reset(self):
        core = self.views.core
        for index, number in enumerate(self.ids):
            core.reset(index, self._seed + int(number))
        self._seed += 2**32  # other episodes the next time
        nothing = np.zeros(len(self.ids), bool)
        return self._told(self.views.observations(), np.zeros(len(self.ids)), nothing, nothing.copy())

    def step(self, actions):
        columns, *rest = self.views.core.step(actions)
        return self._told(self.views.named(columns), *rest, stepped=True)

    def _told(self, observations, rewards, terminations, truncations, stepped=False):
        self.elapsed = np.where(self._ended | (not stepped), 0, self.elapsed + 1).astype(np.int32)
        self._ended = terminations | truncations
        return observations, rewards, terminations, truncations, {"env_id": self.ids.copy(), "elapsed_step": self.elapsed.copy()}


class EnvPool:
    """By make(). Errors of an instance are raised by the recv() of its batch."""

    def __init__(self, name, num_envs, batch_size, num_threads, seed):
        if batch_size < 1 or num_envs % batch_size != 0:
            raise TroupeError(f"{name}: num_envs is {num_envs} and batch_size {batch_size}, expected a multiple of it", "invalid_argument")
        groups = num_envs // batch_size
        threads = max(1, min(num_threads or len(os.sched_getaffinity(0)), 256) // groups)
        self.num_envs, self.batch_size = num_envs, batch_size
        self._groups = [_Group(name, group * batch_size, batch_size, threads, seed) for group in range(groups)]
        self._workers = concurrent.futures.ThreadPoolExecutor(groups, "envpool")
        self._done = queue.SimpleQueue()
        self._last = None
        self.observation_space, self.action_space = gym.spaces_of(self._groups[0].views)

    def __len__(self) -> int:
        return self.num_envs

    @property
    def all_env_ids(self) -> np.ndarray:
        """0 to num_envs - 1, int32."""
        return np.arange(self.num_envs, dtype=np.int32)

    def _begin(self, group, work, *arguments):
        group.check_waits()
        group.waits = False

        def run():
            try:
                self._done.put((group, work(*arguments), None))
            except Exception as error:  # recv() raises it
                self._done.put((group, None, error))

        self._workers.submit(run)

    def async_reset(self) -> None:
        """Begins to reset all instances, which are all to be waiting."""
        for group in self._groups:
            group.check_waits()
        for group in self._groups:
            self._begin(group, group.reset)

    def send(self, action: Array, env_id: npt.ArrayLike | None = None) -> None:
        """Begins a step of the instances `env_id`, by default those received last, with an action each."""
        if env_id is None:
            if self._last is None:
                raise TroupeError("send: nothing was received yet, whose instances could step", "unavailable")
            env_id = self._last.ids
        env_id = np.asarray(env_id)
        group = self._groups[int(env_id[0]) // self.batch_size] if env_id.size and 0 <= env_id[0] < self.num_envs else None
        if group is None or not np.array_equal(np.sort(env_id), group.ids):
            raise TroupeError(f"send: env_id is {env_id.tolist()}, expected the instances of one batch that was received", "invalid_argument")
        actions = group.views.action_bytes(action)
        self._begin(group, group.step, actions[np.argsort(env_id)])

    def recv(self, timeout: float = _DEADLINE_S) -> Step:
        """(observations, rewards, terminations, truncations, info) of the batch that is done first, arrays of their own;
        info has "env_id" and "elapsed_step", int32 [batch_size]. Raises TimeoutError when none is done in time."""
        try:
            group, results, error = self._done.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"recv: no batch was done within {timeout:g} s") from None
        group.waits = True
        self._last = group
        if error is not None:
            raise error
        return results

    def reset(self, timeout: float = _DEADLINE_S) -> tuple[Observations, dict[str, np.ndarray]]:
        """async_reset(), and the first batch's (observations, info)."""
        self.async_reset()
        observations, _, _, _, info = self.recv(timeout)
        return observations, info

    def step(self, action: Array, env_id: npt.ArrayLike | None = None, timeout: float = _DEADLINE_S) -> Step:
        """send() and recv()."""
        self.send(action, env_id)
        return self.recv(timeout)

    def close(self) -> None:
        """Waits for what is under way."""
        self._workers.shutdown(wait=True)


def make(task_id: str, env_type: str = "gymnasium", *, num_envs: int = 1, batch_size: int | None = None, num_threads: int | None = None,
         seed: int = 42) -> EnvPool:
    """task_id: a name in Troupe. batch_size: how many instances recv() returns, num_envs unless it says less. seed: of
    instance 0, the others have the numbers behind it. Raises TroupeError."""
    if env_type != "gymnasium":
        raise TroupeError(f'env_type is "{env_type}", expected "gymnasium" (troupe.dm has dm_env\'s interface)', "invalid_argument")
    return EnvPool(task_id, num_envs, num_envs if batch_size is None else batch_size, num_threads, seed)
