"""Runs of the native program from Python: `troupe.run()` starts one, `troupe.load()` reads one.

A run is a process of its own and a folder of files. What is here starts the one and reads the other, so a run goes on
whatever happens to this process, and one that was started elsewhere is read just as well.
"""

from __future__ import annotations

import csv
import fcntl
import itertools
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from troupe.cli import PROGRAM
from troupe.error import TroupeError
from troupe.policy import Policy
from troupe.roles import Program

_POLL_S = 0.1
_CONFIG_ERROR = 78  # the program's exit code for what it was told
_DTYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "BOOL": "?"}
_runs_of_this_process = itertools.count(1)


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _settings(overrides, section=""):
    for key, value in overrides.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{section}{key}.")
        else:
            yield f"{section}{key}={_toml(value)}"


def _table(path):
    """The columns of a CSV file as arrays: float64, with NaN where a row has nothing; str where it is not numbers."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        try:
            table[name] = np.array([float(value) if value else np.nan for value in values])
        except ValueError:
            table[name] = np.array([value or "" for value in values])
    return table


def _has_trainer(directory):
    """Whether a process holds this folder's lock, as who trains there does. False where the file system has none."""
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(folder)


def _starts(directory):
    """A file of TensorBoard's for each start that has begun, after which the process hears signals."""
    return set(directory.glob("events.out.tfevents.*"))


class Run:
    """A run's folder and, if it was started here, its process. Made by run() and load()."""

    def __init__(self, directory: str | os.PathLike[str], process=None, errors=None) -> None:
        self.directory = pathlib.Path(directory)
        self._process, self._errors = process, errors  # the latter: a file that the process writes what it says to
        self._said = ""

    def __repr__(self):
        return f"<troupe.Run {self.directory}{', runs' if self.running else ', has ended' if self.summary else ''}>"

    @property
    def running(self) -> bool:
        """Whether the process that was started here still runs; of a run that was started elsewhere, whether one trains
        in its folder, on this host or, where the file system's locks reach so far, another."""
        return _has_trainer(self.directory) if self._process is None else self._process.poll() is None

    def wait(self, timeout: float | None = None) -> dict[str, Any]:
        """Waits for the end, at most `timeout` seconds, and returns the summary. Raises TimeoutError, after which the
        run goes on; TroupeError with the program's words when it was started here and failed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.running:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{self.directory}: still runs after {timeout:g} s")
            time.sleep(_POLL_S / 10)
        if self._process is not None:
            if not self._errors.closed:
                self._errors.seek(0)
                self._said = self._errors.read().strip()
                self._errors.close()
            status = self._process.returncode
            if status != 0:
                code = "invalid_argument" if status == _CONFIG_ERROR else "failed"
                raise TroupeError(self._said or f"{self.directory}: ended with status {status}", code)
        return self.summary

    def stop(self, timeout: float = 120) -> dict[str, Any]:
        """Asks the run to end with a last checkpoint, and waits for that; raises as wait(). One that was started elsewhere
        is asked by `troupe stop`, which a run within one process does not hear: TroupeError."""
        if self.running and self._process is not None:
            self._process.send_signal(signal.SIGTERM)
        elif self.running:
            asked = subprocess.run([PROGRAM, "stop", self.directory], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
            if asked.returncode != 0:
                raise TroupeError(asked.stderr.strip(), "failed")
        return self.wait(timeout)

    def checkpoints(self) -> list[pathlib.Path]:
        """Its whole checkpoints, the oldest first: a folder each, over nodes the file that names the parts."""
        found = [*self.directory.glob("checkpoints/step-*"), *self.directory.glob("checkpoints/cut*.json")]
        return sorted((path for path in found if not path.name.endswith(".damaged.json")), key=lambda path: path.stat().st_mtime_ns)

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json: steps, final return, when which return was first reached; {} before the end."""
        path = self.directory / "summary.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def metrics(self) -> dict[str, np.ndarray]:
        """metrics.csv as arrays by name, of one length; NaN where a row has no such value."""
        return _table(self.directory / "metrics.csv")

    def evaluations(self) -> dict[str, np.ndarray]:
        """evaluations.csv: wall_s, source, step, env_steps, return..."""
        return _table(self.directory / "evaluations.csv")

    def policy(self, *, what: str = "", rows: int | None = None, program: Program | None = None) -> Policy:
        """What the newest checkpoint has learnt, as a Policy; `rows`: for so many environments at once; `what`: which agent;
        `program`: whose run it is, if not of what ships alone."""
        return Policy(self.directory, what=what, rows=rows, program=program)

    def rows(self, timeout: float = 60) -> Iterator[dict[str, Any]]:
        """Evaluations as they come, a dictionary each, until the run has ended. Raises TimeoutError when none comes for
        `timeout` seconds while it runs; TroupeError when it failed."""
        seen, since = 0, time.monotonic()
        while True:
            running = self.running  # before reading, so that nothing is missed at the end
            table = self.evaluations()
            count = len(next(iter(table.values()), ()))
            if count > seen:
                since = time.monotonic()
            for index in range(seen, count):
                yield {name: column[index].item() for name, column in table.items()}
            seen = count
            if not running:
                self.wait(0)
                return
            if time.monotonic() - since > timeout:
                raise TimeoutError(f"{self.directory}: no evaluation for {timeout:g} s")
            time.sleep(_POLL_S)


def run(config: str | os.PathLike[str], *, run_dir: str | os.PathLike[str] | None = None, resume: Run | str | os.PathLike[str] | None = None,
        timeout: float = 60, **overrides: Any) -> Run:
    """Starts `troupe train CONFIG`, which hears no Ctrl-C of this terminal, and returns its Run once it has begun.

    config: a file, or the name of a configuration that ships ("cartpole_swingup"). overrides: keys of the configuration,
    sections as dictionaries: run("cheetah_run", seed=3, learner={"batch_size": 128}). run_dir: where it is recorded;
    without it runs/NAME-TIME. resume: a run's folder (or Run) to go on with. timeout: seconds until it must have begun.
    Raises TroupeError with the program's words (file, line, what was expected) when it does not begin.
    """
    if resume is not None and run_dir is not None:
        raise TroupeError(f"run: run_dir is {os.fspath(run_dir)!r}, expected none with `resume`, whose folder it is", "invalid_argument")
    command: list[str | os.PathLike[str]] = [PROGRAM, "train", os.fspath(config), "--quiet"]
    if resume is not None:
        directory = pathlib.Path(resume.directory if isinstance(resume, Run) else resume)
        command += ["--resume", directory]
    else:
        if run_dir is None:
            name = pathlib.Path(os.fspath(config)).stem
            run_dir = pathlib.Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{next(_runs_of_this_process)}"
        directory = pathlib.Path(run_dir)
        command += ["--run-dir", directory]
    for setting in _settings(overrides):
        command += ["--set", setting]
    before = _starts(directory)
    errors = tempfile.TemporaryFile("w+")
    # In a session of its own: the run goes on whatever happens to this process and its terminal.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
    started = Run(directory, process, errors)
    deadline = time.monotonic() + timeout
    while process.poll() is None and _starts(directory) <= before:
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise TimeoutError(f"{directory}: the run had not begun after {timeout:g} s")
        time.sleep(_POLL_S / 10)
    if process.poll() not in (None, 0):
        started.wait()
    return started


def load(path: str | os.PathLike[str]) -> Run | dict[str, np.ndarray]:
    """The Run in this folder, wherever it was started; or of a file that `troupe export --format safetensors` has written its
    tensors by name, copies of their own. Raises TroupeError when it is neither."""
    path = pathlib.Path(path)
    if path.is_file():
        return _safetensors(path)
    if not (path / "config.toml").exists():
        raise TroupeError(f"{path}: there is no run, which has a config.toml", "not_found")
    return Run(path)


def _safetensors(path):
    """huggingface.co/docs/safetensors: the length of a JSON header, the header, the bytes."""
    image = path.read_bytes()
    try:
        (length,) = struct.unpack_from("<Q", image)
        header, data = json.loads(image[8 : 8 + length]), memoryview(image)[8 + length :]
        header.pop("__metadata__", None)
        return {name: np.frombuffer(data[slice(*of["data_offsets"])], _DTYPES[of["dtype"]]).reshape(of["shape"]).copy() for name, of in header.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TroupeError(f"{path}: neither a run's folder nor a whole file of safetensors ({error})", "corrupt") from None
