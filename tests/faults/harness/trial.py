"""One run of one scenario: the run is started, watched until it is steady, its faults happen, it is watched until it
has settled, it is stopped; then the oracles and the scenario's own checks judge what was seen."""

import dataclasses
import json
import os
import pathlib
import shutil
import time

from harness import oracles
from harness.network import Network
from harness.observe import Observer
from harness.oracles import Counter
from harness.training import Actions, Training, wait_until

STEADY_TIMEOUT_S = 60
STEADY_VERSIONS = 20  # learner steps after which a run counts as steady
SLACK_MAX = 4.0
EVERY_TRIAL = ("checkpoint.every_s=2",)  # the first one before most faults; connections for it are made once


@dataclasses.dataclass(frozen=True)
class Scenario:
    """`plan(random)` gives the faults, `check(trial)` says what the scenario demands besides the oracles.

    tier: "ci" runs with all tests, "slow" with the slow ones, "long" takes minutes and runs by hand."""

    name: str
    summary: str
    plan: object
    check: object
    tier: str = "slow"
    needs: tuple = ("root", "hosts")
    training: type = Training
    settings: tuple = ()
    config: str = "apps/configs/cartpole_swingup.toml"
    settle_s: float = 6.0  # after the last fault
    ends_itself: bool = False  # a fault ends the run
    slow_hosts: tuple = ()  # whose cable can delay


@dataclasses.dataclass
class Measurement:
    what: str
    seconds: float | None  # None: it did not happen
    limit_s: float

    def good(self, slack):
        return self.seconds is not None and self.seconds <= self.limit_s * slack

    def __str__(self):
        got = "never" if self.seconds is None else f"{self.seconds:.2f} s"
        return f"{self.what}: {got} (limit {self.limit_s:g} s)"


class Trial:
    def __init__(self, scenario, schedule, folder, program, root, emulator=None, commit="", say=print):
        self.scenario, self.schedule, self.folder = scenario, schedule, pathlib.Path(folder)
        self._program, self._root, self._emulator, self._commit, self._say = program, root, emulator, commit, say
        self.fault_s = []  # when each fault of the schedule did happen
        self.measurements, self.wrong = [], []
        self.exit_status = None
        # Limits hold for a machine that is ours: others' programs that wait for its processors count.
        self.slack = min(max(os.getloadavg()[0] / os.cpu_count(), 1.0), SLACK_MAX)
        self.steady_s = self.end_s = 0.0

    # --- the run ---

    def run(self):
        """Whether all is as it must be."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.schedule.write(self.folder / "schedule.json", self._commit)
        with Network(self._emulator, self.schedule.seed) as network:
            options = {"slow_hosts": self.scenario.slow_hosts} if self.scenario.slow_hosts else {}
            self.training = self.scenario.training(
                network, self._program, self._root / self.scenario.config, self.folder,
                (f"seed={self.schedule.seed}", *EVERY_TRIAL, *self.scenario.settings), **options)
            self.training.start()
            with Observer(self.training.status, self.training.processes, self.folder / "observed.jsonl") as observer:
                self.observer = observer
                if self._becomes_steady():
                    self._suffer()
            if self.training.launcher.wait(0) is None and not self.scenario.ends_itself:
                self.exit_status = self.training.stop()
                if self.exit_status != 0:
                    self.wrong.append(f"the run did not end with status 0 after Ctrl-C, got {self.exit_status}")
            if left := sorted(self.training.processes()):
                self.wrong.append(f"still there after the end: {', '.join(left)}")
        if self.steady_s and self.fault_s:
            self._judge()
        self.wrong += [f"too late: {measurement}" for measurement in self.measurements
                       if not measurement.good(self.slack)]
        self._write_result()
        return not self.wrong

    def _becomes_steady(self):
        def steady(snapshot):
            learners = [one for one in snapshot.instances.values() if one.role == "learner"]
            return learners and all(one.version >= STEADY_VERSIONS for one in learners) and all(
                one.state == "up" for one in snapshot.instances.values())

        if self.observer.wait_for(steady, STEADY_TIMEOUT_S) is None:
            last = self.observer.snapshots[-1:] or "nobody answered for its status"
            self.wrong.append(f"not steady within {STEADY_TIMEOUT_S} s: {last}")
            return False
        self.steady_s = time.monotonic()
        return True

    def _suffer(self):
        actions = self.actions = Actions(self.training, self.observer)
        for fault in self.schedule.faults:
            wait_until(self.steady_s + fault.at_s)
            self._say(f"    {fault}")
            self.fault_s.append(time.monotonic())
            actions.happened_s = None
            try:
                getattr(actions, fault.action)(fault.target, **fault.arguments)
                self.fault_s[-1] = actions.happened_s or self.fault_s[-1]
            except Exception as error:  # pylint: disable=broad-except; a fault that cannot be done is a finding
                self.wrong.append(f"{fault} could not be done: {error}")
                return
        if self.scenario.ends_itself:
            self.exit_status = self.training.launcher.wait(self.scenario.settle_s)
        elif self.training.launcher.wait(self.scenario.settle_s) is not None:
            self.wrong.append("the run ended by itself")
        self.end_s = time.monotonic()

    def _judge(self):
        snapshots = self.observer.snapshots
        self.wrong += oracles.monotone_versions(snapshots)
        self.wrong += oracles.one_owner(snapshots)
        self.wrong += oracles.no_growth(self.observer.usages, self.steady_s)
        self.scenario.check(self)

    def _write_result(self):
        result = {"scenario": self.scenario.name, "seed": self.schedule.seed, "exit_status": self.exit_status,
                  "slack": self.slack,
                  "faults": [{"fault": str(fault), "at_s": at_s - self.steady_s}
                             for fault, at_s in zip(self.schedule.faults, self.fault_s)],
                  "measurements": [dataclasses.asdict(one) for one in self.measurements], "wrong": self.wrong}
        (self.folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    # --- for checks ---

    def expect(self, what, at_s, since_s, limit_s):
        """Something happened at at_s (None: never) because of a fault at since_s."""
        self.measurements.append(Measurement(what, None if at_s is None else at_s - since_s, limit_s))

    def before(self, at_s):
        """The last snapshot before a time."""
        return [snapshot for snapshot in self.observer.snapshots if snapshot.at_s < at_s][-1]

    def first(self, since_s, condition):
        """When a snapshot at or after since_s first met the condition; None when none did."""
        return next((one.at_s for one in self.observer.snapshots if one.at_s >= since_s and condition(one)), None)

    def expect_back(self, name, fault_s, limit_s, port, detected_s=1.5):
        """An instance lost its process at fault_s: the chief says so, and a new incarnation sends or takes frames."""
        lost = self.before(fault_s).instances[name]
        old = lost.incarnation

        def works(snapshot):
            one = snapshot.instances[name]
            return one.incarnation > old and one.state == "up" and one.frames.get(port, 0) > 0

        self.expect(f"{name} detected", self.said(f"node {lost.node} is dead", fault_s), fault_s, detected_s)
        self.expect(f"{name} back", self.first(fault_s, works), fault_s, limit_s)

    def said(self, text, since_s):
        """When a line with `text` first came from any node or the launcher; None when none did."""
        return self.training.launcher.output.wait_for(text, timeout_s=0, since=since_s)

    def expect_works(self, name, port, since_s, limit_s):
        """The instance sends or takes frames after since_s, as the same incarnation or a new one."""
        old = self.before(since_s).instances[name]

        def works(snapshot):
            one = snapshot.instances[name]
            known = old.frames.get(port, 0) if one.incarnation == old.incarnation else 0
            return one.state == "up" and one.frames.get(port, 0) > known

        self.expect(f"{name} works", self.first(since_s, works), since_s, limit_s)

    def expect_steps_during(self, begin_s, end_s, share, before_s=2.0):
        """The learner made at least that share of the steps that it made in the seconds before."""
        versions = self.learner_version()
        usual = versions.rate(begin_s - before_s, begin_s)
        got = versions.rate(begin_s, end_s)
        if got < share * usual:
            self.wrong.append(f"the learner made {got:.1f} steps/s meanwhile and {usual:.1f} before")

    def counter(self, name, value):
        """Of value(snapshot), which must only grow; None where it is not known."""
        made = Counter(name)
        for snapshot in self.observer.snapshots:
            now = value(snapshot)
            if now is not None:
                made.add(snapshot.at_s, now)
        return made

    def learner_version(self):
        def version(snapshot):
            return max((one.version for one in snapshot.instances.values() if one.role == "learner"), default=None)

        return self.counter("the learner's version", version)

    def expect_progress(self, fault_s, limit_s, more=10):
        """The learner makes steps again."""
        self.expect("learner steps", self.learner_version().reached(fault_s, more), fault_s, limit_s)

    def expect_no_deaths(self):
        """Nobody was declared dead or restarted."""
        first, last = self.before(self.fault_s[0]), self.observer.snapshots[-1]
        for name, one in last.instances.items():
            old = first.instances.get(name)
            if old is not None and one.incarnation != old.incarnation:
                self.wrong.append(f"{name} was restarted: incarnation {old.incarnation} became {one.incarnation}")
        for name, node in last.nodes.items():
            if node.state == "dead" or name in first.nodes and node.incarnation != first.nodes[name].incarnation:
                self.wrong.append(f"node {name} was taken for dead: {node}")
