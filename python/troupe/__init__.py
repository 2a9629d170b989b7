"""Troupe: an actor-based asynchronous runtime for reinforcement learning and GANs.

The program is `troupe` on the command line (`troupe train cartpole_swingup`), and `troupe.run()` here. `troupe.gym`,
`troupe.dm` and `troupe.envpool` have its environments for Gymnasium, dm_env and EnvPool, `troupe.VectorEnv` without them.
`troupe.Table` is replay for a learner of one's own, `troupe.SequenceReplay` several tables of sequences. `troupe.Role` and `troupe.Learner` are parts of a run written in
Python, and `troupe.main()` is the program with them in it.
"""

import importlib.metadata

from troupe._core import VectorEnv, environment_names
from troupe.error import TroupeError
from troupe.learners import Agent, Learner, Step
from troupe.messages import Parameters, Priorities, Sample, SampleRequest, SequenceSample, Trajectory
from troupe.policy import Policy
from troupe.replay import RateLimiter, ReplayClient, Table
from troupe.roles import Context, Identity, Key, Port, Program, Progress, Queue, Report, Role, main
from troupe.runs import Run, load, run
from troupe.sequences import SequenceReplay, SequenceReplayRole, SequenceWriter, StepsWriter, TableSpec

__version__ = importlib.metadata.version("troupe")
__all__ = [
    "Agent", "Context", "Identity", "Key", "Learner", "Parameters", "Policy", "Port", "Priorities", "Program", "Progress", "Queue", "RateLimiter", "ReplayClient", "Report",
    "Role", "Run", "Sample", "SampleRequest", "SequenceReplay", "SequenceReplayRole", "SequenceSample", "SequenceWriter", "Step", "StepsWriter", "Table", "TableSpec", "Trajectory", "TroupeError", "VectorEnv", "environment_names", "load", "main", "run",
]
