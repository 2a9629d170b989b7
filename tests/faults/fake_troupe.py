#!/usr/bin/env python3
"""Stands in for the program in the tests of the scenario runner: the same commands, processes and status, no training.

    fake_troupe.py train CONFIG --processes --run-dir RUN [--set KEY=VALUE]...
    fake_troupe.py status RUN --json

The setting bug=NAME gives it a defect that the runner must see: never_back (a dead node is not restarted),
version_falls (a restarted learner starts from 0), leaves_processes (Ctrl-C ends the launcher alone).
"""

import json
import pathlib
import signal
import subprocess
import sys
import time

NODES = ["chief", "learner", "actors"]
TICK_S = 0.02


def node(run, name, incarnation, bug):
    """Counts; what it counted lies in a file that the status reads."""
    version = 0
    state = run / f"{name}.json"
    if state.exists() and bug != "version_falls":
        version = json.loads(state.read_text(encoding="utf-8"))["version"]
    frames = 0
    while True:
        time.sleep(TICK_S)
        version, frames = version + 1, frames + 1
        part = state.with_suffix(f".{incarnation}")
        part.write_text(json.dumps({"version": version, "frames": frames, "incarnation": incarnation}), "utf-8")
        part.replace(state)


def train(run, bug):
    run.mkdir()
    stopping = []
    signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
    incarnations = {name: 0 for name in NODES}
    children = {}
    while not stopping:
        for name in NODES:
            if name in children and children[name].poll() is not None:
                print(f"chief | TRP-E101 node {name} is dead: its connection closed", flush=True)
            if name not in children or children[name].poll() is not None and bug != "never_back":
                incarnations[name] += 1
                children[name] = subprocess.Popen([sys.executable, "-ISB", __file__, "node", str(run), "--name", name,
                                                   str(incarnations[name]), bug])
        time.sleep(TICK_S)
    if bug != "leaves_processes":
        for child in children.values():
            child.kill()


def status(run):
    known = {name: json.loads((run / f"{name}.json").read_text(encoding="utf-8")) for name in NODES}
    print(json.dumps({
        "run": "fake", "term": 1,
        "nodes": [{"name": name, "incarnation": one["incarnation"], "state": "up"} for name, one in known.items()],
        "instances": [{"name": name, "role": role, "node": on, "incarnation": known[on]["incarnation"], "state": "up",
                       "version": known[on]["version"], "ports": [{"name": port, "frames": known[on]["frames"]}]}
                      for name, role, on, port in (("learner", "learner", "learner", "batches"),
                                                   ("actor-0", "actor", "actors", "trajectories"))]}))


if __name__ == "__main__":
    options = sys.argv[1:]
    bugs = [word.removeprefix("bug=") for word in options if word.startswith("bug=")]
    if options[0] == "node":
        node(pathlib.Path(options[1]), options[3], int(options[4]), options[5])
    elif options[0] == "train":
        train(pathlib.Path(options[options.index("--run-dir") + 1]), (bugs or ["none"])[0])
    else:
        status(pathlib.Path(options[1]))
