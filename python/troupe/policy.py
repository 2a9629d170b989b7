"""What a run has learnt, acting on arrays."""

import numpy as np

from troupe import _core
from troupe.arrays import as_array
from troupe.error import TroupeError


class Policy:
    """The policy of a run's newest checkpoint, as its evaluator acts with it: without exploration. By `Run.policy()`.

    rows: None, and act() takes one observation; or of how many environments it takes observations at once.
    environment: the name of what it was trained on. step: how many steps it has learnt.
    """

    def __init__(self, directory, *, what="", rows=None):
        self.rows = rows
        self._count = 1 if rows is None else rows
        self._core = _core.Policy(str(directory), what, self._count)
        self.environment, self.step = self._core.environment, self._core.step
        self._columns = [(name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in self._core.columns]
        _, dtype, shape = self._core.action
        self._action_dtype, self._action_shape = np.dtype(dtype), tuple(shape)
        self._first = np.ones(self._count, np.uint8)

    def act(self, observation, first=None):
        """The action for an observation as the environment gives it, a dictionary of columns or one array, of NumPy or by
        DLPack; with `rows` both have that as their leading dimension. Where the policy sees columns flattened, they are
        joined in their order.

        first: whether an episode begins (bool [rows]), which policies with memory must know; by default it does at the
        first call. Raises TroupeError naming shapes, or for values that are not finite.
        """
        if first is not None:
            self._first[:] = first
        actions = self._core.act(self._bytes(observation), self._first)
        self._first[:] = 0
        actions = np.array(actions.view(self._action_dtype)).reshape(self._count, *self._action_shape)
        return actions[0] if self.rows is None else actions

    def _bytes(self, observation):
        if isinstance(observation, dict):
            if len(self._columns) == 1 and self._columns[0][0] not in observation:
                dtype = self._columns[0][1]
                flat = [as_array(value, dtype).reshape(self._count, -1) for value in observation.values()]
                observation = {self._columns[0][0]: np.concatenate(flat, axis=1)}
        else:
            observation = {self._columns[0][0]: observation}
        parts = []
        for name, dtype, shape in self._columns:
            if name not in observation:
                raise TroupeError(f"{self.environment}: the observation has no {name}, but {', '.join(observation)}", "not_found")
            values = as_array(observation[name], dtype)
            if self.rows is None and values.shape == shape:
                values = values[None]
            if values.shape != (self._count, *shape):
                expected = shape if self.rows is None else (self._count, *shape)
                raise TroupeError(f"{self.environment}: {name} has shape {values.shape}, expected {expected}", "shape_mismatch")
            parts.append(values.reshape(self._count, -1).view(np.uint8))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
