"""Namespaces for a test of its own: processes that it starts are all gone when it ends, and its networks, mounts and host
names are nobody else's."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
from harness.requirements import NAMESPACES, SKIPPED, reason_to_skip  # noqa: E402


def need(test, *needs):
    """Ends the process with the exit status of a test that is skipped, and the reason, where a need is not met."""
    if reason := reason_to_skip(needs):
        print(f"SKIPPED {test}: {reason}")
        sys.exit(SKIPPED)


def enter_namespaces(test, *needs):
    """Starts this script again as the first process of new namespaces, unless it is that. Skipped as need() says."""
    if os.environ.get("TROUPE_ISOLATED"):
        return
    need(test, *needs)
    os.environ["TROUPE_ISOLATED"] = "yes"
    os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, "-SB", *sys.argv])
