"""Troupe's environments as dm_env's: `import troupe.dm`, then

    environment = troupe.dm.load("cheetah-run", seed=1)
    time_step = environment.reset()
    while not time_step.last():
        time_step = environment.step(action)

Observations are ordered dictionaries of columns, as dm_control's. The discount is 0 where the task is done, and 1 at a
time limit.
"""

from __future__ import annotations

import collections
import secrets

import dm_env
import numpy as np
import numpy.typing as npt
from dm_env import specs

from troupe import _core
from troupe.arrays import Views

_RESET, _STEP = 1, 2


class Environment(dm_env.Environment):
    """One instance. seed: of its random stream, from which all episodes follow; None: any."""

    def __init__(self, name: str, *, seed: int | None = None) -> None:
        self._core = _core.VectorEnv(name, seed=secrets.randbits(63) if seed is None else seed)
        self._views = Views(self._core)
        self._move = np.zeros(1, np.uint8)
        self._begun = False

    def _moved(self, move, actions):
        self._move[0] = move
        self._core.advance(self._move, actions)
        observation = {name: column[0] for name, column in self._views.columns_of_all().items()}
        return dm_env.StepType(int(self._views.types[0])), collections.OrderedDict(observation)

    def reset(self) -> dm_env.TimeStep:
        _, observation = self._moved(_RESET, self._views.no_actions)
        self._begun = True
        return dm_env.restart(observation)

    def step(self, action: npt.ArrayLike) -> dm_env.TimeStep:
        """A step, or, before the first reset() and behind the last step of an episode, reset() without regard to the
        action. Numbers beyond their bounds are clipped."""
        if not self._begun:
            return self.reset()
        actions = self._views.action_bytes(np.asarray(action)[None])
        kind, observation = self._moved(_STEP, actions)
        self._begun = kind is not dm_env.StepType.LAST
        return dm_env.TimeStep(kind, float(self._views.rewards[0]), float(self._views.discounts[0]), observation)

    def observation_spec(self) -> collections.OrderedDict[str, specs.Array]:
        return collections.OrderedDict((name, specs.Array(shape, dtype, name)) for name, dtype, shape in self._views.columns)

    def action_spec(self) -> specs.Array:
        views = self._views
        if self._core.action_choices == 0:
            return specs.BoundedArray(views.action_shape, views.action_dtype, *views.action_bounds(), name="action")
        if views.action_shape == ():
            return specs.DiscreteArray(self._core.action_choices, views.action_dtype.type, "action")
        return specs.BoundedArray(views.action_shape, views.action_dtype, 0, self._core.action_choices - 1, name="action")


def load(name: str, *, seed: int | None = None) -> Environment:
    """An environment by its name in Troupe. Raises TroupeError for an unknown one, naming the nearest."""
    return Environment(name, seed=seed)
