"""A learner of one's own, in PyTorch, JAX or NumPy, for an agent of Troupe's: native env actors act with its policy, native
replay gives it batches, and what is around them (the parameter store, checkpoints, metrics, evaluation) is the agent's.

    class TD3(troupe.Learner):
        keys = {"rate": 3e-4}

        def __init__(self, keys, agent):
            self.actor = Actor(...)

        def learn(self, batch):
            observations = torch.from_numpy(batch["observation"])
            ...
            return {"critic_loss": loss.item()}

        def policy(self):
            return {"policy/0/weight": self.actor[0].weight.T, ...}

    if __name__ == "__main__":
        raise SystemExit(troupe.main(learners={"my_td3": TD3}))

`python my_td3.py train cheetah_run --set algorithm=td3 --set learner.kind=my_td3`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Union

import numpy as np

from troupe.arrays import Array, as_array, as_strided
from troupe.error import TroupeError
from troupe.roles import Key, first_line, named


@dataclasses.dataclass(frozen=True)
class Agent:
    """What a learner is told of its agent."""

    batch: dict[str, tuple[str, tuple[int, ...]]]  # column -> type and shape of a row; with priorities "weight" is the last
    policy: dict[str, tuple[int, ...]]  # what policy() must give: names and shapes, of float32; a weight is [in, out]
    batch_size: int
    max_steps: int  # after which the learner is done; 0: no end
    prioritised: bool  # learn() must give priorities
    seed: int


@dataclasses.dataclass(frozen=True)
class Step:
    """What came out of one step. metrics: in metrics.csv as learner/NAME; priorities: of the batch's rows, finite, >= 0."""

    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    priorities: Array | None = None


class Learner:
    """Takes batches, gives a policy. One thread at a time calls it; an exception ends it, and the run with it."""

    keys: Mapping[str, Any] = {}  # of the section [NAME]: a default or a troupe.Key each

    def __init__(self, keys: dict[str, Any], agent: Agent) -> None:
        pass

    def learn(self, batch: dict[str, np.ndarray]) -> Union[Mapping[str, float], Step, None]:
        """One step on one batch, [batch_size, ...] arrays by name, the learner's to keep. Metrics, or a Step."""
        raise NotImplementedError(f"{type(self).__name__}.learn")

    def policy(self) -> Mapping[str, Array]:
        """What env actors act with from now on, by the names of Agent.policy. Called every learner.publish_period steps, and
        before the first."""
        raise NotImplementedError(f"{type(self).__name__}.policy")

    def save(self) -> Mapping[str, Union[int, Array]]:
        """What a checkpoint must hold besides the policy: integers and arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Called before the first step with what save() gave, as integers and arrays."""


@dataclasses.dataclass(frozen=True)
class _Described:
    doc: str
    keys: list[Key]


def describe(learner: type[Learner]) -> _Described:
    """What the core asks of a class."""
    if not (isinstance(learner, type) and issubclass(learner, Learner)):
        raise TroupeError(f"{learner!r} is no subclass of troupe.Learner", "invalid_argument")
    return _Described(first_line(learner), named(Key, learner.keys))


def as_step(said: Union[Mapping[str, float], Step, None]) -> Step:
    """What the core takes of learn()."""
    step = said if isinstance(said, Step) else Step(said or {})
    priorities = None if step.priorities is None else as_array(step.priorities, np.float64).tolist()
    return Step({name: float(value) for name, value in step.metrics.items()}, priorities)


def as_policy(said: Mapping[str, Array]) -> dict[str, np.ndarray]:
    """What the core takes of policy(), and copies."""
    return {name: as_strided(tensor, np.float32) for name, tensor in said.items()}
