"""The command `troupe` of an installed wheel: the native program, which replaces this process."""

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).parent / "installed" / "bin" / "troupe"


def main():
    os.execv(PROGRAM, ["troupe", *sys.argv[1:]])
