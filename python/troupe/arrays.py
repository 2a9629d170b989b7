"""What users hand over as numbers, and how the bytes of a core environment become what they mean."""

from __future__ import annotations

from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from troupe.error import TroupeError


class SupportsDLPack(Protocol):
    """An array of another library."""

    def __dlpack__(self): ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


Array = Union[npt.ArrayLike, SupportsDLPack]

_HOST_DEVICES = (1, 3)  # DLPack's numbers of the processor's memory, and of such that is pinned for CUDA


def as_strided(value: Any, dtype: npt.DTypeLike | None) -> np.ndarray:
    """An array of this type, or of its own: of what NumPy understands, or by DLPack of another library's array (PyTorch, JAX), which is
    not copied where it can be used as it is."""
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        kind, index = value.__dlpack_device__()
        if kind not in _HOST_DEVICES:
            raise TroupeError(f"an array lies on a device (DLPack's {int(kind)}:{index}), expected the processor's memory", "invalid_argument")
        value = np.from_dlpack(value)
    return np.asarray(value, dtype)


def as_array(value: Any, dtype: npt.DTypeLike | None) -> np.ndarray:
    """The same, contiguous and of one dimension at least."""
    return np.ascontiguousarray(as_strided(value, dtype))


_KEPT = ("float32", "float64", "int32", "int64", "uint8")


def as_column(value: Any) -> np.ndarray:
    """A contiguous array of a type that messages and checkpoints have: bool becomes uint8, others that fit none raise."""
    array = as_array(value, None)
    if array.dtype == bool:
        return array.astype(np.uint8)
    if array.dtype.name not in _KEPT:
        raise TroupeError(f"an array has type {array.dtype}, expected one of {', '.join(_KEPT)} or bool", "invalid_argument")
    return array


class Views:
    """The memory of a core environment: views of its columns, which its next call writes over, and bytes of actions."""

    def __init__(self, core):
        self.core = core
        self.columns = []
        self._views = {}
        self.rewards, self.discounts, self.types = core.rewards, core.discounts, core.types
        rows, offset = core.observations, 0
        for name, dtype, shape in core.columns:
            dtype = np.dtype(dtype)
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            self.columns.append((name, dtype, tuple(shape)))
            self._views[name] = rows[:, offset : offset + size].view(dtype).reshape(len(rows), *shape)
            offset += size
        self.is_dict = len(self.columns) != 1
        _, dtype, shape = core.action
        self.action_dtype, self.action_shape = np.dtype(dtype), tuple(shape)
        self.no_actions = self.action_bytes(np.zeros((core.count, *self.action_shape), self.action_dtype))  # of instances that do not step

    def action_bounds(self):
        """The lowest and the highest of each number, for actions that are no choices."""
        return tuple(np.array(bound, self.action_dtype).reshape(self.action_shape) for bound in self.core.action_bounds)

    def columns_of_all(self, copy=True):
        """Of all instances by name, [count, ...] each; without `copy` they are views."""
        return {name: column.copy() if copy else column for name, column in self._views.items()}

    def observations(self, copy=True):
        """A dictionary of columns, or the only one."""
        return self.named(list(self.columns_of_all(copy).values()))

    def named(self, columns):
        return dict(zip(self._views, columns)) if self.is_dict else columns[0]

    def action_bytes(self, actions):
        """Contiguous bytes of [count, ...] actions; numbers beyond their bounds are clipped by the environment."""
        expected = (self.core.count, *self.action_shape)
        given = as_strided(actions, None if self.core.action_choices else self.action_dtype)
        actions = np.ascontiguousarray(given, self.action_dtype)
        if given.shape != expected:
            raise TroupeError(f"{self.core.name}: an action has shape {given.shape}, expected {expected}", "shape_mismatch")
        if self.core.action_choices and (given.dtype.kind not in "iub" or not np.array_equal(given, actions)):
            raise TroupeError(f"{self.core.name}: an action is one of {self.core.action_choices} choices, got {given.tolist()} of type {given.dtype}",
                              "invalid_argument")
        return actions.reshape(self.core.count, -1).view(np.uint8)
