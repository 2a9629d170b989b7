#!/usr/bin/env python3
"""Runs a bench of Troupe, with --rivals in turn with its rivals in the same run, and prints medians and ratios.

    ./troupe bench --list
    ./troupe bench NAME [--rivals] [--without RIVAL] [--device cuda] [--json FILE] [--repeats N] [--seconds S]

One repeat runs every side once, one after the other, so that a change in the load of the machine meets all of them. A
ratio above 1 always means that Troupe is ahead. A side that fails ends the run with one error: no row is dropped.

Troupe's side is a google-benchmark program: a row is named by the benchmark's name up to the first '/', its value is the
counter "value" or else items_per_second, its unit is the label. Where one program run cannot measure the row (training),
it is a script. Scripts, and so most rivals, print one JSON object a line, {"name", "value", "unit", "version"}, one for
each row that they cover. A rival in C++ is a program like Troupe's, with its version in the context. What Troupe's side
knows as a limit of a row by itself (a bound, a multiple of another row) is a counter "vs_NAME" of its program or "limits"
{NAME: value} of its script, and is shown as a rival called NAME.

With --device every side runs on that GPU, which the environment variable TROUPE_BENCH_DEVICE names; rows and rivals are
those of the bench's `gpu`. Three more variables are for machines that cannot build or install:
  TROUPE_BIN_DIR         a folder with the programs, for instance one that was copied; nothing is built
  TROUPE_RIVALS_PYTHON   an interpreter that has the rivals' packages; nothing is installed
  TROUPE_BENCH_TRIAL=1   tiny sizes, in rows called trial_..., with the rivals on the processor: shows that all of it runs
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import sys
import time

from benches import BENCHES
from progress import Progress
from sides import BenchError, NoGpu, prepare


def machine():
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cpu[1] if cpu else platform.machine()}, {cores} cores, {memory_gib:.0f} GiB, {platform.freedesktop_os_release()['PRETTY_NAME']}"


def run(bench, sides, repeats, say):
    """The rows of the report; sides[0] is Troupe."""
    results, took_s = {side.name: [] for side in sides}, {side.name: [] for side in sides}

    def left_s():
        """Until all are done: each takes as long as it did before, which is not known within the first repeat."""
        if not all(took_s.values()):
            return None
        return sum(statistics.mean(took) * (repeats - len(took)) for took in took_s.values())

    for repeat in range(repeats):
        for side in sides:
            say(f"repeat {repeat + 1} of {repeats}, {side.name}", left_s())
            begun = time.monotonic()
            results[side.name].append(side.measure(repeat))
            took_s[side.name].append(time.monotonic() - begun)
    for name, samples in results.items():
        if any(sample.keys() != samples[0].keys() for sample in samples):
            raise BenchError(f"{name}: its rows differ between repeats")

    def spread(values):
        """What stands in the report of one row of one side."""
        return {"value": statistics.median(values), "low": min(values), "high": max(values)}

    def ratio(value, rival):
        return value / rival if bench.better == "higher" else rival / value

    ours, rivals = results[sides[0].name][0], {side.name: results[side.name][0] for side in sides[1:]}
    for name, theirs in rivals.items():
        for row, sample in theirs.items():
            if row not in ours:
                raise BenchError(f"{name}: measured the row {row}, Troupe measures only {', '.join(ours)}")
            if ours[row].unit and sample.unit != ours[row].unit:
                raise BenchError(f"{name}: row {row} is in {sample.unit}, Troupe's in {ours[row].unit}")
    rows = []
    for row, sample in ours.items():
        value = spread([samples[row].value for samples in results[sides[0].name]])
        compared = {
            name: {"version": theirs[row].version, **spread([samples[row].value for samples in results[name]])}
            for name, theirs in rivals.items()
            if row in theirs
        }
        for name in sample.limits:
            limits = [samples[row].limits[name] for samples in results[sides[0].name]]
            compared[name] = {"version": "", **spread(limits)}
        for rival in compared.values():
            rival["ratio"] = ratio(value["value"], rival["value"])
        units = [sample.unit] + [theirs[row].unit for theirs in rivals.values() if row in theirs] + ["items/s"]
        unit = next(filter(None, units))
        rows.append(
            {"name": row, **value, "unit": unit, "better": bench.better, "repeats": repeats, "rivals": compared}
        )
    return rows


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def spread_text(values):
    return f"{number(values['value'])} ({number(values['low'])}-{number(values['high'])})"


def table(rows):
    """The rows as a Markdown table, one line for each rival of a row: medians, least and greatest."""
    lines = [("row", "Troupe", "unit", "rival", "its value", "ratio")]
    for row in rows:
        compared = [
            (f"{n} {r['version']}".strip(), spread_text(r), f"{r['ratio']:.2f}") for n, r in row["rivals"].items()
        ]
        for rival in compared or [("", "", "")]:
            lines.append((row["name"], spread_text(row), row["unit"], *rival))
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines)


def parse_device(text):
    """"cuda" or "cuda:1" as Troupe's configurations name it, "cuda:1"."""
    found = re.fullmatch(r"cuda(:\d+)?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: expected cuda, cuda:0, cuda:1, ...")
    return text if found[1] else "cuda:0"


def on_gpu(name, bench, device):
    """The bench as it is on a GPU."""
    if bench.gpu is None:
        have = ", ".join(other for other, about in BENCHES.items() if about.gpu)
        raise BenchError(f"--device {device}: {name} runs on the processor alone; for a GPU there are {have}")
    gpu = bench.gpu
    return dataclasses.replace(
        bench, troupe=gpu.troupe, rivals=gpu.rivals, timeout_s=gpu.timeout_s, repeats=gpu.repeats, seconds=gpu.seconds,
        programs=(),
    )


def chosen_rivals(bench, options):
    # Of all benches together each leaves out what it has.
    unknown = [name for name in options.without if name not in bench.rivals and options.name is not None]
    if unknown or (options.without and not options.rivals):
        raise BenchError(f"--without {' '.join(options.without)}: needs --rivals, which are {', '.join(bench.rivals) or 'none'}")
    if not bench.troupe:
        raise BenchError("this bench is for GPUs alone: --device cuda")
    return {name: rival for name, rival in bench.rivals.items() if options.rivals and name not in options.without}


def main():
    parser = argparse.ArgumentParser(prog="./troupe bench", description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", choices=BENCHES, help="which bench; with --device, none: all that a GPU has")
    parser.add_argument("--list", action="store_true", help="list the benches and their rivals")
    parser.add_argument("--rivals", action="store_true", help="run the rivals too (installs them when needed)")
    parser.add_argument(
        "--without", metavar="RIVAL", action="append", default=[], help="but not this one; the report says so"
    )
    parser.add_argument("--device", metavar="cuda[:N]", type=parse_device, help="run every side on this GPU")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write the result to FILE")
    parser.add_argument("--repeats", metavar="N", type=int, help="medians of N repeats (train: 1, others: 5)")
    parser.add_argument("--seconds", metavar="S", type=int, help="of a row, where the bench says for how long")
    options = parser.parse_args()
    if options.list:
        for name, bench in BENCHES.items():
            seconds = f", {bench.seconds} s" if bench.seconds else ""
            rivals = [f"rivals: {', '.join(bench.rivals) or 'none'}"] if bench.troupe else []
            rivals += [f"on a GPU: {', '.join(bench.gpu.rivals) or 'none'}"] if bench.gpu else []
            print(f"{name:14} {bench.summary}{seconds} ({'; '.join(rivals)})")
        return
    if options.name is None and not options.device:
        parser.error("which bench? --list shows them")
    if options.name is None and options.json:
        parser.error("--json: expected a bench, whose result it is to hold")
    if options.repeats is not None and options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: expected at least 1")
    named = BENCHES.get(options.name)
    if named and options.seconds and not (named.gpu if options.device and named.gpu else named).seconds:
        parser.error(f"--seconds: {options.name} takes as long as it takes")
    failed = False
    for name in [options.name] if options.name else [name for name, bench in BENCHES.items() if bench.gpu]:
        try:
            measure(name, options)
        except BenchError as error:
            print(f"bench {name}: failed: {error}", file=sys.stderr, flush=True)
            failed = True
            if isinstance(error, NoGpu):
                break
    sys.exit(1 if failed else 0)


def measure(name, options):
    """Runs one bench with the rivals that were asked for, prints its table and writes its report."""
    bench = BENCHES[name]
    if options.device:
        bench = on_gpu(name, bench, options.device)
    if bench.seconds:
        seconds = options.seconds or bench.seconds
        os.environ["TROUPE_BENCH_SECONDS"] = str(seconds)
        bench = dataclasses.replace(bench, timeout_s=bench.timeout_s + 4 * seconds)
    rivals = chosen_rivals(bench, options)
    sides, gpu = prepare(bench, rivals, options.device)
    with Progress(f"bench {name}") as progress:
        rows = run(bench, sides, options.repeats or bench.repeats, progress.say)
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")
    report = {"bench": name, "date": date, "machine": machine()}
    if options.device:
        report |= {"device": options.device, "gpu": gpu}
    if options.without:
        report |= {"without": options.without}
    report |= {"rows": rows}
    heading = "; ".join(filter(None, [report["machine"], gpu]))
    print(heading, table(rows), sep="\n\n")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
        print(f"\nwritten to {options.json}")
    if bench.rivals and not options.rivals:
        device = f" --device {options.device}" if options.device else ""
        print(f"\nbeside {', '.join(bench.rivals)}: ./troupe bench {name} --rivals{device}")


if __name__ == "__main__":
    main()
