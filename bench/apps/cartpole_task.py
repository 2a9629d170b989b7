"""What both sides of the train bench share: the configuration, the return to reach, the time limit, the row."""
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("TROUPE_BIN_DIR", ROOT / "build" / "release" / "bin")) / "troupe"
CONFIG = ROOT / "apps" / "configs" / "cartpole_swingup.toml"
LIMIT_S = 3600
# Lower, one of 100, 200, ..., to try the bench out; it is part of the row's name.
THRESHOLD = int(os.environ.get("TROUPE_TRAIN_THRESHOLD", "800"))


def report(wall_s, version):
    row = {"name": f"cartpole_swingup_to_{THRESHOLD}", "value": wall_s, "unit": "s", "version": version}
    print(json.dumps(row), flush=True)


def not_reached(best, wall_s):
    """Ends the process. best: greatest mean return of an evaluation; None when there was none."""
    reached = "no evaluation was made" if best is None else f"the best evaluation had {best:.1f}"
    sys.exit(f"a mean return of {THRESHOLD} was not reached in {wall_s:.0f} s: {reached}")
