"""Sends what a run records to wandb, MLflow or trackio: `./troupe track RUN --to wandb`, or `python -m troupe.track`.

A process beside the run that only reads its files: however slow or dead the tracker is, the run does not know of it. It
follows metrics.csv and evaluations.csv over their rewrites, and drops what a resumed run took back. Where it is, it asks
the tracker's own store, so that after a kill no row is lost or there twice; of a store on a server that cannot be asked
it keeps its place in RUN/track.json, and a kill may then repeat what it was just sending.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import glob
import io
import json
import math
import os
import pathlib
import re
import signal
import struct
import sys
import time

_BATCH = 500  # rows that are read and sent at a time
_POLL_S = 1.0
_ENDS_S = 3.0  # a run that has its summary and has written nothing for so long has ended
_FIXED = {"metrics": ("wall_s", "env_steps", "learner_steps"), "evaluations": ("wall_s", "source", "step", "env_steps")}


class TrackError(Exception):
    """Said to the user as one line."""


class Event:
    """A row. `values` have the names of its columns; those of an evaluation "SOURCE/NAME", as in TensorBoard."""

    def __init__(self, kind, row):
        fixed = _FIXED[kind]
        self.kind = kind
        self.wall_s = float(row["wall_s"])
        prefix = row["source"] + "/" if kind == "evaluations" else ""
        self.values = {prefix + name: float(cell) for name, cell in row.items() if name not in fixed and cell not in ("", None)}
        self.values = {name: value for name, value in self.values.items() if math.isfinite(value)}
        self.env_steps = int(row["env_steps"])
        self.learner_steps = int(row["learner_steps"] if kind == "metrics" else row["step"])

    @property
    def step(self):
        """What curves are drawn over: env steps, or training steps of a run without environments."""
        return self.env_steps or self.learner_steps


class File:
    """The whole lines of a CSV file that grows, and is now and then written anew."""

    def __init__(self, path):
        self.path, self.file, self.inode, self.names = path, None, None, []

    def rows(self):
        """The next of them, at most _BATCH; all from the first line on when the file is another one."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            return []
        if self.file is None or now.st_ino != self.inode or now.st_size < self.file.tell():
            if self.file:
                self.file.close()
            self.file, self.inode = open(self.path, "rb"), now.st_ino
            self.names = []
        found = []
        while len(found) < _BATCH:
            at = self.file.tell()
            line = self.file.readline()
            if not line.endswith(b"\n"):
                self.file.seek(at)
                break
            cells = next(csv.reader(io.StringIO(line.decode())))
            if not self.names:
                self.names = cells
            elif len(cells) == len(self.names):
                found.append(dict(zip(self.names, cells)))
        return found


class Place:
    """How far a kind of rows has been sent: wall_s never goes back in a run, whatever it takes back."""

    def __init__(self, wall_s=-math.inf, at=0):
        self.wall_s, self.at = wall_s, at  # `at`: rows that have just this time

    def add(self, wall_s):
        if wall_s > self.wall_s:
            self.wall_s, self.at = wall_s, 1
        elif wall_s == self.wall_s:
            self.at += 1


class Wandb:
    """Offline unless WANDB_MODE says otherwise; `wandb sync` uploads it. The store is read back from its file."""

    def __init__(self, run, identity, project, folder):
        os.environ.setdefault("WANDB_MODE", "offline")
        import wandb

        self.offline = os.environ["WANDB_MODE"] == "offline"
        self.folder, self.identity = folder, identity
        self.found = self._read_back() if self.offline else None
        settings = wandb.Settings(console="off", x_disable_stats=True, disable_git=True, save_code=False)
        self.run = wandb.init(project=project, id=identity, name=run.name, resume="allow", dir=str(folder), settings=settings,
                              config=_config(run))
        self.run.define_metric("env_steps")
        self.run.define_metric("*", step_metric="env_steps")

    def places(self):
        return self.found

    def send(self, events):
        for event in events:
            self.run.log({**event.values, "wall_s": event.wall_s, "env_steps": event.env_steps, "learner_steps": event.learner_steps,
                          "kind": event.kind})

    def close(self):
        self.run.finish()

    def _read_back(self):
        from wandb.proto import wandb_internal_pb2

        places = {kind: Place() for kind in _FIXED}
        # A file of a process that was just killed may still be written to by wandb's own.
        files = sorted(glob.glob(str(self.folder / "wandb" / f"offline-run-*-{glob.escape(self.identity)}" / "*.wandb")))
        while any(time.time() - os.stat(file).st_mtime < 2 for file in files):
            time.sleep(0.2)
        for file in files:
            for data in _wandb_records(pathlib.Path(file).read_bytes()):
                record = wandb_internal_pb2.Record()
                record.ParseFromString(data)
                if record.WhichOneof("record_type") != "history":
                    continue
                row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                if "kind" in row:
                    places[json.loads(row["kind"])].add(float(row["wall_s"]))
        return places


def _wandb_records(data):
    """The records of a .wandb file, which is a log of LevelDB's format: blocks of 32 KiB, records in one piece or several."""
    at, block, parts = 7, 32768, b""
    while at + 7 <= len(data):
        left = block - at % block
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at:at + 7])
        if kind not in (1, 2, 3, 4) or at + 7 + length > len(data):
            return  # cut short by a kill
        piece = data[at + 7:at + 7 + length]
        at += 7 + length
        parts = piece if kind in (1, 2) else parts + piece
        if kind in (1, 4):
            yield parts


class Mlflow:
    """Any tracking URI of MLflow's; without one a folder of files beside the run's."""

    def __init__(self, run, identity, project, folder):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "mlruns").resolve().as_uri()
        import mlflow
        from mlflow.entities import Metric

        self.Metric = Metric
        self.client = mlflow.MlflowClient(tracking_uri=uri)
        experiment = self.client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else self.client.create_experiment(project)
        found = self.client.search_runs([number], f"tags.`troupe.run` = '{identity}'", max_results=1)
        if found:
            self.id, tags = found[0].info.run_id, found[0].data.tags
            self.client.update_run(self.id, status="RUNNING")
            self.base_ms = int(tags["troupe.base_ms"])
            # Of a batch that was cut short some values are there and others not, so each has its own place.
            self.there = {name: {(point.timestamp, point.step) for point in self.client.get_metric_history(self.id, name)}
                          for name in found[0].data.metrics}
        else:
            self.base_ms = int(time.time() * 1000)
            tags = {"troupe.run": identity, "troupe.base_ms": str(self.base_ms)}
            self.id = self.client.create_run(number, run_name=run.name, tags=tags).info.run_id
            self.there = {}
            for name, value in _config(run).items():
                self.client.log_param(self.id, re.sub(r"[^\w. /-]", "_", name), str(value)[:500])

    def places(self):
        return {kind: Place() for kind in _FIXED}  # what is there already is left out by value

    def send(self, events):
        points = []
        for event in events:
            stamp = self.base_ms + round(event.wall_s * 1000)
            for name, value in {**event.values, "wall_s": event.wall_s}.items():
                name = re.sub(r"[^\w. /-]", "_", name) if name != "wall_s" else event.kind + ".wall_s"
                if (stamp, event.step) not in self.there.get(name, ()):
                    points.append(self.Metric(name, value, stamp, event.step))
        for at in range(0, len(points), 1000):
            self.client.log_batch(self.id, metrics=points[at:at + 1000])

    def close(self):
        self.client.set_terminated(self.id)


class Trackio:
    """Local: trackio's own SQLite file, under TRACKIO_DIR."""

    def __init__(self, run, identity, project, folder):
        os.environ.setdefault("TRACKIO_DIR", str((folder / "trackio").resolve()))
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        self.trackio = trackio
        self.local = not any(os.environ.get(name) for name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"))
        self.found, self.next = {kind: Place() for kind in _FIXED} if self.local else None, 0
        logs = SQLiteStorage.get_logs(project, identity) if self.local else []
        for row in logs:
            self.next = max(self.next, row["step"] + 1)
            self.found[row["kind"]].add(float(row["wall_s"]))
        trackio.init(project=project, name=identity, resume="allow", config=_config(run), auto_log_gpu=False, auto_log_cpu=False,
                     embed=False)

    def places(self):
        return self.found

    def send(self, events):
        for event in events:
            # Its step cannot go back and is a number of its own, so rows are counted; env_steps is a column to draw over.
            self.trackio.log({**event.values, "wall_s": event.wall_s, "env_steps": event.env_steps, "learner_steps": event.learner_steps,
                              "kind": event.kind}, step=self.next)
            self.next += 1

    def close(self):
        self.trackio.finish()


_TRACKERS = {"wandb": (Wandb, "wandb"), "mlflow": (Mlflow, "mlflow"), "trackio": (Trackio, "trackio")}


def _config(run):
    """The lines `key = value` of config.toml, by section."""
    found, section = {}, ""
    try:
        text = (run / "config.toml").read_text(errors="replace")
    except FileNotFoundError:
        return found
    for line in text.splitlines():
        if head := re.fullmatch(r"\s*\[+([^\]]+)\]+\s*(#.*)?", line):
            section = head[1].strip() + "."
        elif pair := re.fullmatch(r"\s*([\w.\"-]+)\s*=\s*(.*?)\s*", line):
            found[section + pair[1]] = pair[2].strip('"')
    return found


class Follower:
    """Reads a run and sends its rows on."""

    def __init__(self, run, tracker, to, place_file):
        self.run, self.tracker, self.to, self.place_file = run, tracker, to, place_file
        self.files = {kind: File(run / f"{kind}.csv") for kind in _FIXED}
        self.places = tracker.places() or self._kept()
        self.known = {}  # of each kind: the place when its file was opened; what is read behind the place's end is new
        self.sent = 0

    def _kept(self):
        kept = self._place_json().get(self.to, {})
        return {kind: Place(*kept.get(kind, ())) for kind in _FIXED}

    def _place_json(self):
        try:
            return json.loads(self.place_file.read_text())
        except FileNotFoundError:
            return {}

    def _keep(self):
        kept = self._place_json()
        kept[self.to] = {kind: [place.wall_s, place.at] for kind, place in self.places.items() if place.at}
        temporary = self.place_file.with_suffix(".json.tmp")
        temporary.write_text(json.dumps(kept))
        temporary.replace(self.place_file)

    def step(self):
        """Sends what is new; whether there was anything to read."""
        read = False
        for kind, file in self.files.items():
            inode = file.inode
            rows = file.rows()
            if not rows:
                continue
            read = True
            place = self.places[kind]
            if inode != file.inode:
                self.known[kind] = Place(place.wall_s, place.at)
            fresh = [event for event in (Event(kind, row) for row in rows) if self._is_new(self.known[kind], event)]
            self.tracker.send(fresh)
            for event in fresh:
                place.add(event.wall_s)
            self.sent += len(fresh)
        if read:
            self._keep()
        return read

    @staticmethod
    def _is_new(known, event):
        if event.wall_s == known.wall_s and known.at > 0:
            known.at -= 1
            return False
        return event.wall_s >= known.wall_s

    def ended(self):
        """Whether the run has its summary and writes no more."""
        try:
            written = max(os.stat(self.run / name).st_mtime for name in ("metrics.csv", "evaluations.csv"))
            return os.stat(self.run / "summary.json").st_mtime >= written and time.time() - written > _ENDS_S
        except FileNotFoundError:
            return False


def track(run, to, project="troupe", once=False, folder=None):
    """Follows until the run has ended, or somebody ends this process; returns how many rows were sent."""
    run = pathlib.Path(run)
    if not (run / "config.toml").exists():
        raise TrackError(f"{run}: not the directory of a run: it has no config.toml")
    folder = pathlib.Path(folder or run / "track")
    folder.mkdir(exist_ok=True)
    lock = open(folder / f"{to}.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TrackError(f"{run}: another process tracks it with {to}") from None
    make, module = _TRACKERS[to]
    identity = re.sub(r"[^a-z0-9_-]", "-", run.resolve().name.lower())[:100]
    try:
        tracker = make(run, identity, project, folder)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TrackError(f"{module} is not installed for {sys.executable}: pip install {module}") from None
    follower = Follower(run, tracker, to, run / "track.json")
    stop = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.append(1))
    while not stop:
        if follower.step():
            continue
        if once or follower.ended():
            break
        time.sleep(_POLL_S)
    tracker.close()
    return follower.sent


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="troupe track", description="Sends what a run records to a tracker, from a process of its own.")
    parser.add_argument("run", metavar="RUN", help="directory of the run")
    parser.add_argument("--to", required=True, choices=sorted(_TRACKERS))
    parser.add_argument("--project", default="troupe", help="project or experiment there (default: troupe)")
    parser.add_argument("--once", action="store_true", help="send what is there, and do not wait for more")
    given = parser.parse_args(arguments)
    try:
        sent = track(given.run, given.to, given.project, given.once)
    except TrackError as error:
        print(f"troupe: {error}", file=sys.stderr)
        return 1
    print(f"{sent} rows of {given.run} sent to {given.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
