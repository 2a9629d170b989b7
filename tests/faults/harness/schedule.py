"""What happens to a run, when and to whom: made from a seed, kept in a file, repeated from it."""

import dataclasses
import json
import pathlib
import random

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Fault:
    """`action` names a method of the scenario's actions (faults.py), called with `target` and `arguments`."""

    at_s: float  # since the run was steady
    action: str
    target: str
    arguments: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        arguments = "".join(f" {key}={value}" for key, value in self.arguments.items())
        return f"{self.at_s:.2f} s: {self.action} {self.target}{arguments}"


@dataclasses.dataclass(frozen=True)
class Schedule:
    scenario: str
    seed: int
    faults: tuple

    @staticmethod
    def make(scenario, seed, plan):
        """`plan(random)` gives the faults. The generator depends on the scenario too: one seed is not one moment."""
        faults = plan(random.Random(f"{scenario}/{seed}"))
        rounded = (dataclasses.replace(fault, at_s=round(fault.at_s, 3)) for fault in faults)  # as the file has it
        return Schedule(scenario, seed, tuple(sorted(rounded, key=lambda fault: fault.at_s)))

    def write(self, path, commit):
        record = {"format": FORMAT, "scenario": self.scenario, "seed": self.seed, "commit": commit,
                  "faults": [dataclasses.asdict(fault) for fault in self.faults]}
        pathlib.Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def read(path):
        record = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise ValueError(f"{path}: format {record['format']}, expected {FORMAT}")
        return Schedule(record["scenario"], record["seed"], tuple(Fault(**fault) for fault in record["faults"]))
