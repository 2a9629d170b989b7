"""Troupe: an actor-based asynchronous runtime for reinforcement learning and GANs.

The program is `troupe` on the command line (`troupe train cartpole_swingup`), and `troupe.run()` here. `troupe.gym`,
`troupe.dm` and `troupe.envpool` have its environments for Gymnasium, dm_env and EnvPool, `troupe.VectorEnv` without them.
`troupe.Table` is replay for a learner of one's own.
"""

from troupe._core import VectorEnv, environment_names
from troupe.error import TroupeError
from troupe.policy import Policy
from troupe.replay import RateLimiter, Table
from troupe.runs import Run, load, run

__all__ = ["Policy", "RateLimiter", "Run", "Table", "TroupeError", "VectorEnv", "environment_names", "load", "run"]
