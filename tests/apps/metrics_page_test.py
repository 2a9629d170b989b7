"""Holds docs/metrics.md against what runs write: small runs of every kind must write all the names that the page explains,
and no others; and TensorBoard's event files must have what the CSV files have. TROUPE_EMULATED_PLUGINS is the folder of the
emulated GPU's plug-ins; without it nothing is said of replay in a GPU.

    TROUPE_PROGRAM=build/release/bin/troupe python3 tests/apps/metrics_page_test.py
"""

import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = ("metrics.csv", "evaluations.csv", "channels.csv")

D4PG = """env = "cartpole-swingup"
max_env_steps = 6000
[metrics]
every_s = 0.05
[replay]
min_items = 300
samples_per_insert = 1
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
every_learner_steps = 100
"""
AGENT = """[agents.alice]
env = "cartpole-swingup"
max_env_steps = 20000
[metrics]
every_s = 0.05
[agents.alice.replay]
min_items = 300
samples_per_insert = 1
[agents.alice.d4pg]
policy_layers = [16]
critic_layers = [16]
[agents.alice.learner]
batch_size = 16
[agents.alice.evaluator]
episodes = 1
every_learner_steps = 100
"""
GROUP = """[metrics]
every_s = 0.05
[replicas.{name}]
data = "synthetic"
batch_size = 20
"""
CLASSIFIER = GROUP + 'model = "classifier"\nlayers = [64]\nsteps = 10000\nevaluate_every_steps = 2500\n'
GAN = GROUP + 'model = "sngan"\nlayers = [16]\nevaluation_images = 100\nsteps = 1000\nevaluate_every_steps = 500\n'

# name of the run (and of its group or agent): configuration, more arguments of `troupe train`
RUNS = {
    "nodes": (D4PG, ["--processes"]),
    "server": (D4PG + "[actors]\ninference = 'server'\ncount = 2\n", []),
    "alice": (AGENT, []),
    "net": (CLASSIFIER + "flip = true\ndata_threads = 1\n", []),
    "ps": (CLASSIFIER + "replicator = 'parameter_server'\ncount = 2\n", []),
    "deep": (GROUP + "model = 'resnet'\ndepth = 20\nsteps = 20\nevaluate_every_steps = 20\n", []),
    "gan": (GAN, []),
    "split": (GAN + "replicator = 'split_gan'\n", []),
}
EMULATED = {"gpu": (D4PG, ["--set", "learner.device=cuda:0", "--set", "replay.device=cuda:0"])}


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def columns_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def fields(data):
    """(number, value) of the fields of a protocol buffer: bytes as they are, of numbers None."""
    def varint(at):
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 0x7f) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        kind, value = key & 7, None
        if kind == 0:
            _, at = varint(at)
        elif kind == 2:
            length, at = varint(at)
            value, at = data[at:at + length], at + length
        else:
            at += {1: 8, 5: 4}[kind]
        yield key >> 3, value


def tags_of(run):
    """Of all scalars in a run's event files: a TFRecord is a length, its checksum, the event and its checksum."""
    tags = set()
    for path in run.glob("events.out.tfevents.*"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at:at + 8], "little")
            event = data[at + 12:at + 12 + length]
            at += length + 16
            for summary in (value for number, value in fields(event) if number == 5):
                for entry in (value for number, value in fields(summary) if number == 1):
                    parts = list(fields(entry))
                    if any(number == 2 for number, _ in parts):  # simple_value
                        tags.add(next(value for number, value in parts if number == 1).decode())
    return tags


def expected_tags(run):
    tags = {"run/env_steps", "run/wall_s"} | {name for name in columns_of(run / "metrics.csv") if "/" in name}
    for row in rows_of(run / "evaluations.csv"):
        group = row["source"].replace("final", "evaluator")
        tags |= {f"{group}/{name}" for name, value in list(row.items())[4:] if value}
    for row in rows_of(run / "channels.csv"):
        tags |= {f"channels/{row['role']}.{row['port']}.{name}" for name, value in list(row.items())[5:] if value}
    return tags


def explained():
    """(file, name) -> whether something has written it, of all names in the tables of the page."""
    names, heading = {}, ""
    for line in (ROOT / "docs/metrics.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.startswith("| source "):
            heading = "sources"
        elif line.startswith("| `") and heading in (*FILES, "sources"):
            names |= {(heading, name): False for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    return names


def written(run, group):
    """(file, name) of what a run has written, with NAME for its group or agent; roles of an agent as those of one without a name."""
    def general(name):
        return re.sub(r"^NAME-(?=(actor|learner|parameters|replay)/)", "", re.sub(rf"^{group}(?=[-/])", "NAME", name))

    for file in FILES:
        rows = rows_of(run / file)
        for name in columns_of(run / file):
            if not any(row[name] for row in rows):
                sys.exit(f"{group}: {file} has a column {name}, and no value in it")
            yield file, general(name)
    for row in rows_of(run / "evaluations.csv"):
        yield "sources", general(row["source"])


def check(folder):
    program, plugins = os.environ["TROUPE_PROGRAM"], os.environ.get("TROUPE_EMULATED_PLUGINS")
    runs = RUNS | (EMULATED if plugins else {})
    names, wrong = explained(), []
    for name, (text, arguments) in runs.items():
        (folder / f"{name}.toml").write_text(text.format(name=name), encoding="utf-8")
        environment = os.environ | ({"TROUPE_PLUGIN_PATH": plugins} if name in EMULATED else {})
        done = subprocess.run([program, "train", folder / f"{name}.toml", "--run-dir", folder / name, *arguments],
                              capture_output=True, text=True, timeout=120, env=environment)
        if done.returncode != 0:
            sys.exit(f"{name}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        for found in written(folder / name, name):
            if found not in names:
                wrong.append(f"{name}: {found[0]} has {found[1]}, which docs/metrics.md does not explain")
            names[found] = True
        tags, expected = tags_of(folder / name), expected_tags(folder / name)
        if tags != expected:
            wrong.append(f"{name}: TensorBoard alone has {sorted(tags - expected)}, the CSV files {sorted(expected - tags)}")
        steps = [(row["source"], row["step"]) for row in rows_of(folder / name / "evaluations.csv")]
        if len(set(steps)) < len(steps):
            wrong.append(f"{name}: evaluations twice: {sorted(steps)}")
    for (file, name), was_written in names.items():
        if not was_written and (plugins or not name.startswith("learner/")):
            wrong.append(f"docs/metrics.md explains {name} of {file}, which none of {', '.join(runs)} has written")
    if wrong:
        sys.exit("\n".join(dict.fromkeys(wrong)))
    print(f"{len(names)} names of {len(runs)} runs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        check(pathlib.Path(made))
