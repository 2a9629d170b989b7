#!/usr/bin/env python3
"""Writes bench/results/h200.md from the reports of the benches with --device: `gpu_results.py FOLDER FILE`.

FOLDER has what `./troupe bench NAME --device cuda --json FOLDER/NAME.json` has written, and of `train` the curves and
summaries. What is missing is named, and so is every row that falls short of what was asked of it.
"""
import json
import pathlib
import re
import shutil
import sys

import run
from benches import BENCHES

ON_GPU = [name for name, bench in BENCHES.items() if bench.gpu]
# (bench, row's beginning, rival) -> the least ratio that is asked for.
GOALS = {
    ("learner", "d4pg_step", "torch"): 3.0,
    ("learner", "d4pg_step", "jax"): 2.0,
    ("learner", "d4pg_step", "bound"): 0.5,
    ("learner", "d4pg_host_replay", "torch_cpprb"): 3.0,
    ("learner", "d4pg_host_replay", "jax_cpprb"): 3.0,
    ("pixels", "pixels_step", "torch"): 1.5,
    ("pixels", "pixels_step", "jax"): 1.5,
    ("replay", "gpu_sample_prioritized", "torchrl"): 5.0,
    ("replay", "gpu_sample_prioritized", "torch"): 5.0,
    ("sngan", "sngan_", "torch"): 1.2,
    ("resnet50", "resnet50_256_bf16", "torch"): 1.0,
}


def goal_of(bench, row, rival):
    return next((goal for (b, start, r), goal in GOALS.items() if b == bench and row.startswith(start) and r == rival), None)


def judged(report):
    """One line for each rival that a goal is set for: what was asked, and whether it was reached."""
    lines = []
    for row in report["rows"]:
        for rival, compared in row["rivals"].items():
            goal = goal_of(report["bench"], row["name"], rival)
            if goal is not None:
                reached = "reached" if compared["ratio"] >= goal else "**not reached**"
                lines.append(f"- {row['name']} against {rival}: {compared['ratio']:.2f}, asked for {goal:g}: {reached}")
    return lines


def steps_line(summary):
    rates = {name: summary[name] / summary["wall_s"] for name in ("env_steps", "learner_steps")}
    return (f"{summary['env']}: {run.number(rates['env_steps'])} environment steps/s and "
            f"{run.number(rates['learner_steps'])} learner steps/s over {run.number(summary['wall_s'])} s")


def section(name, folder, target):
    """The part of one bench."""
    file = folder / f"{name}.json"
    command = f"`./troupe bench {name} --device cuda --rivals`"
    if not file.exists():
        return [f"{command}: no report; it failed, or was not run.", ""]
    report = json.loads(file.read_text())
    if "device" not in report:
        raise SystemExit(f"{file}: expected a report of --device, got one of the processor")
    without = f"; left out, because this machine lacks them: {', '.join(report['without'])}" if report.get("without") else ""
    repeats = report["rows"][0]["repeats"]
    lines = [f"{command}, {report['date']} UTC, {repeats} repeats{without}:", "", run.table(report["rows"]), ""]
    lines += [*judged(report), ""] if judged(report) else []
    if name == "train":
        for summary in sorted(folder.glob("*_to_*.json")):
            curve = summary.with_suffix(".svg")
            lines += [f"{steps_line(json.loads(summary.read_text()))}.", ""]
            if curve.exists():
                shutil.copy(curve, target / f"gpu_{curve.name}")
                lines += [f"![{summary.stem}](gpu_{curve.name})", ""]
    return lines


def page(folder, target):
    """The whole page. target: the folder that it will lie in, to which curves are copied."""
    reports = [json.loads((folder / f"{name}.json").read_text()) for name in ON_GPU if (folder / f"{name}.json").exists()]
    if not reports:
        raise SystemExit(f"{folder}: no report of {', '.join(ON_GPU)}")
    machines = sorted({f"{report['machine']}; {report.get('gpu')}" for report in reports})
    if any("emulated" in machine.lower() or row["name"].startswith("trial_")
           for machine in machines for report in reports for row in report["rows"]):
        raise SystemExit(f"{folder}: has reports of trials or of an emulated device, which are no measurements")
    name = re.match(r"[^,]*", reports[0].get("gpu") or "a GPU")[0]
    lines = [f"# On {name}", "", "Written by `tools/gpu_checks.sh`; what the rows are, [bench/README.md](../README.md) says.", ""]
    lines += [f"- {machine}" for machine in machines] + [""]
    for bench in ON_GPU:
        lines += [f"## {bench}", *section(bench, folder, target)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: gpu_results.py FOLDER FILE")
    folder, file = map(pathlib.Path, sys.argv[1:])
    file.write_text(page(folder, file.resolve().parent))


if __name__ == "__main__":
    main()
