"""What a run has learnt, acting on arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from troupe import _core
from troupe.arrays import Array, as_array
from troupe.error import TroupeError
from troupe.roles import Program


class Policy:
    """The policy of a run's newest checkpoint, as its evaluator acts with it: without exploration. By `Run.policy()`.

    rows: None, and act() takes one observation; or of how many environments it takes observations at once.
    environment: the name of what it was trained on. step: how many steps it has learnt.
    """

    def __init__(self, directory: str | os.PathLike[str], *, what: str = "", rows: int | None = None, program: Program | None = None) -> None:
        self.rows = rows
        self._lead = () if rows is None else (rows,)
        self._core = _core.Policy(str(directory), what, rows, program)
        self.environment, self.step = self._core.environment, self._core.step
        self._given = [name for name, _, _ in self._core.given]
        self._columns = [(name, np.dtype(dtype), self._lead + tuple(shape)) for name, dtype, shape in self._core.columns]

    def act(self, observation: Array | Mapping[str, Array], first: npt.ArrayLike | None = None) -> np.ndarray:
        """The action for an observation as the environment gives it, a dictionary of columns or one array, of NumPy or by
        DLPack; with `rows` both have that as their leading dimension. Where the policy sees columns flattened, those of a
        dictionary are joined by their names, in the order that it has learnt.

        first: whether an episode begins (bool [rows]), which policies with memory must know; by default it does at the
        first call. Raises TroupeError naming shapes, or for values that are not finite.
        """
        if first is not None:
            first = np.broadcast_to(np.asarray(first, bool), (self._core.rows,)).astype(np.uint8)
        return self._core.act(self._bytes(observation), first)

    def _bytes(self, observation):
        """The bytes of all columns, row by row."""
        name, dtype, _ = self._columns[0]
        if len(self._columns) == 1:
            if isinstance(observation, Mapping):
                observation = observation[name] if list(observation) == [name] else self._joined(observation, dtype)
            return self._column(observation, *self._columns[0])
        if not isinstance(observation, Mapping):
            observation = {name: observation}
        parts = []
        for name, dtype, shape in self._columns:
            if name not in observation:
                raise TroupeError(f"{self.environment}: the observation has no {name}, but {', '.join(observation)}", "not_found")
            parts.append(self._column(observation[name], name, dtype, shape).reshape(self._core.rows, -1).view(np.uint8))
        return np.concatenate(parts, axis=1)

    def _joined(self, columns, dtype):
        if columns.keys() != set(self._given):
            raise TroupeError(f"{self.environment}: the observation has {', '.join(map(str, columns))}, expected {', '.join(self._given)}", "not_found")
        return np.concatenate([as_array(columns[name], dtype).reshape(*self._lead, -1) for name in self._given], axis=-1)

    def _column(self, value, name, dtype, shape):
        values = as_array(value, dtype)
        if values.shape != shape and not (shape == () and values.shape == (1,)):
            raise TroupeError(f"{self.environment}: {name} has shape {values.shape}, expected {shape}", "shape_mismatch")
        return values
