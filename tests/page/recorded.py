"""Directories of runs as the page reads them, made by hand: for what a short real run has not."""

import json
import pathlib
import struct
import time
import zlib


def png(side, shade):
    """A grey square."""
    rows = b"".join(b"\0" + bytes([shade]) * side for _ in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def instance(role, index=0, state="up", **more):
    return {"name": f"{role}-{index}", "role": role, "node": "chief", "state": state, "incarnation": 1, "restarts": 0, "restart_limit": 5,
            "error": "", "idle_s": -1, "waits_for": "", "why": "", "version": -1, "ports": [], **more}


def write_status(run, instances, fresh=True, **more):
    """status.json. fresh: as of now, so that the run counts as one that trains."""
    status = {"written_unix_s": time.time() if fresh else 1e9, "run": run.name, "term": 1, "seconds": 60, "last_cut": 3, "trouble": [],
              "nodes": [{"name": "chief", "state": "up", "incarnation": 1, "address": "", "silent_s": 0}], "instances": instances,
              "groups": [], "channels": [], "messages": [], "waits": [], "versions": {}, "staleness": {}, **more}
    temporary = run / "status.tmp"
    temporary.write_text(json.dumps(status))
    temporary.rename(run / "status.json")


def make_run(folder, name, rows=50, evaluation="return", columns=("actor/steps_per_s", "learner/steps_per_s", "learner/critic_loss")):
    run = pathlib.Path(folder) / name
    run.mkdir(parents=True)
    (run / "config.toml").write_text('env = "cartpole-swingup"\n')
    lines = ["wall_s,env_steps,learner_steps," + ",".join(columns)]
    lines += [f"{i + 1},{100 * i},{10 * i}," + ",".join(str(1 + (i + at) % 9) for at in range(len(columns))) for i in range(rows)]
    (run / "metrics.csv").write_text("\n".join(lines) + "\n")
    found = [f"wall_s,source,step,env_steps,{evaluation}"] + [f"{i + 1},evaluator,{10 * i},{100 * i},{10 * i}" for i in range(rows)]
    (run / "evaluations.csv").write_text("\n".join(found) + "\n")
    (run / "log.txt").write_text("begun\n")
    return run
