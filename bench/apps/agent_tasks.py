"""What both sides of the train_agents bench share: configurations, returns to reach, rows."""
import dataclasses
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("TROUPE_BIN_DIR", ROOT / "build" / "release" / "bin")) / "troupe"
LIMIT_S = 5400  # of one run
# Lower, one of 100, 200, ..., to try the bench out; it is part of the rows' names.
THRESHOLD = os.environ.get("TROUPE_TRAIN_THRESHOLD")


@dataclasses.dataclass(frozen=True)
class Task:
    """A shipped configuration, and the mean return over an evaluation's episodes that counts as learnt."""

    name: str
    threshold: int

    @property
    def config(self):
        return ROOT / "apps" / "configs" / f"{self.name}.toml"

    def report(self, wall_s, step_s, version):
        """wall_s: until that return, None if it was not reached. step_s: of an env step with its learner step."""
        if wall_s is None:
            sys.exit(f"{self.name}: a mean return of {self.threshold} was not reached in {LIMIT_S} s")
        rows = ((f"{self.name}_to_{self.threshold}", wall_s, "s"), (f"{self.name}_step", step_s * 1e3, "ms"))
        for row, value, unit in rows:
            print(json.dumps({"name": row, "value": value, "unit": unit, "version": version}), flush=True)


TASKS = [
    Task(name, int(THRESHOLD or threshold))
    for name, threshold in (("walker_walk_sac", 900), ("cheetah_run_td3", 300))
]
