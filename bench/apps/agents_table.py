#!/usr/bin/env python3
"""How soon each agent has learnt a task: wall time until its first evaluation at 80 % of the best return that is published
for the task by anybody. A median over an agent's seeds; none where fewer than half came there.

    ./troupe sweep agents --set env=walker-walk,cheetah-run --seeds 1..3 --jobs 2
    python3 bench/apps/agents_table.py sweeps/agents sweeps/suite      # a row for each task, prints the table of docs/suite.md
"""
import argparse
import collections
import csv
import math
import pathlib
import statistics
import sys
import tomllib

# Means of the published runs that docs/suite.md names, whatever the agent and the number of env steps.
BEST_PUBLISHED = {"cartpole-swingup": 880, "cheetah-run": 920, "finger-spin": 989, "reacher-easy": 985, "walker-walk": 978}
SHARE = 0.8


def seconds_to(run, wanted):
    """Wall time of a run's first evaluation at `wanted`; infinite if none was."""
    with (run / "evaluations.csv").open(newline="") as file:
        return next((float(row["wall_s"]) for row in csv.DictReader(file) if float(row["return"]) >= wanted), math.inf)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sweeps", nargs="+", type=pathlib.Path, help="their directories")
    times = collections.defaultdict(list)
    for sweep in parser.parse_args().sweeps:
        for summary in sorted(sweep.glob("runs/*/summary.json")):
            config = tomllib.loads((summary.parent / "config.toml").read_text())
            task, agent = config["env"], config["algorithm"]
            if task in BEST_PUBLISHED:
                times[task, agent].append(seconds_to(summary.parent, SHARE * BEST_PUBLISHED[task]))
    if not times:
        sys.exit("no run of these tasks has ended")
    agents = sorted({agent for _, agent in times})
    print(f"| task | return | {' | '.join(agents)} |")
    print("|---" * (2 + len(agents)) + "|")
    for task, best in BEST_PUBLISHED.items():
        medians = [statistics.median(times.get((task, agent), [math.inf])) for agent in agents]
        cells = [f"{median:.0f} s ({len(times[task, agent])})" if median < math.inf else "-" for median, agent in zip(medians, agents)]
        print(f"| {task} | {SHARE * best:.0f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
