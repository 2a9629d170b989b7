#!/usr/bin/env python3
"""What D4PG learns on 18 tasks of the Control Suite, beside what is published of Acme's D4PG.

    ./troupe sweep suite --seeds 1..5 --jobs 2 --at 100000,250000,500000
    python3 bench/apps/suite_table.py sweeps/suite                    # prints the table of docs/suite.md
    python3 bench/apps/suite_table.py sweeps/suite --short            # and that of README.md

A published number of env steps is the mean [least-greatest] of 10 seeds, each the mean return within 25,000 env steps of
it. Ours are the sweep's: of each seed the last evaluation's 20 episodes at the end, and on the straight line between two
evaluations before it.
"""
import argparse
import csv
import pathlib
import sys

# Task: mean, least and greatest at 100,000, at 250,000 and at 500,000 env steps.
PUBLISHED = {
    "acrobot-swingup": ((49, 34, 81), (89, 25, 154), (129, 33, 225)),
    "ball_in_cup-catch": ((756, 347, 923), (965, 954, 970), (968, 963, 974)),
    "cartpole-balance": ((988, 941, 999), (998, 998, 999), (999, 998, 999)),
    "cartpole-balance_sparse": ((996, 980, 1000), (989, 940, 1000), (969, 910, 1000)),
    "cartpole-swingup": ((635, 185, 805), (865, 848, 877), (875, 861, 880)),
    "cartpole-swingup_sparse": ((21, 0, 148), (428, 22, 826), (750, 596, 826)),
    "cheetah-run": ((147, 68, 201), (431, 81, 556), (629, 471, 767)),
    "finger-spin": ((365, 211, 500), (704, 631, 806), (823, 743, 872)),
    "finger-turn_easy": ((273, 175, 513), (428, 266, 626), (592, 471, 709)),
    "finger-turn_hard": ((55, 0, 252), (299, 111, 688), (416, 1, 807)),
    "hopper-hop": ((1, 0, 3), (21, 1, 58), (80, 20, 115)),
    "hopper-stand": ((36, 0, 113), (400, 0, 835), (760, 1, 933)),
    "pendulum-swingup": ((609, 19, 828), (772, 252, 876), (760, 148, 859)),
    "reacher-easy": ((569, 86, 856), (871, 431, 952), (961, 919, 977)),
    "reacher-hard": ((62, 1, 175), (735, 274, 950), (941, 898, 968)),
    "walker-run": ((114, 85, 160), (421, 251, 524), (615, 576, 646)),
    "walker-stand": ((545, 323, 787), (888, 566, 976), (947, 668, 988)),
    "walker-walk": ((366, 192, 528), (909, 836, 960), (968, 962, 978)),
}
AT = (100_000, 250_000, 500_000)


def rows_of(sweep):
    """Task -> its row of the sweep's table.csv."""
    with pathlib.Path(sweep, "table.csv").open(newline="") as file:
        rows = {row["task"]: row for row in csv.DictReader(file)}
    missing = sorted(PUBLISHED.keys() - rows.keys())
    if missing:
        sys.exit(f"{sweep}: no runs of {', '.join(missing)} have ended")
    return rows


def whole(rows):
    columns = [f"{what} at {at // 1000}k" for at in AT for what in ("published", "ours")]
    yield f"| task | {' | '.join(columns)} | least to greatest | within | seeds |"
    yield "|---" * (len(columns) + 4) + "|"
    for task, published in PUBLISHED.items():
        row = rows[task]
        cells = []
        for (mean, least, greatest), at in zip(published, AT):
            cells += [f"{mean} [{least}-{greatest}]", f"{float(row[f'return_at_{at}']):.0f}"]
        least, greatest = (float(row[f"return_{which}"]) for which in ("min", "max"))
        ours, low, high = float(row["return_mean"]), *published[-1][1:]
        # Published values are rounded to whole numbers.
        within = "below" if round(ours) < low else "above" if round(ours) > high else "yes"
        yield f"| {task} | {' | '.join(cells)} | {least:.0f} to {greatest:.0f} | {within} | {row['runs']} |"


def short(rows):
    tasks = list(PUBLISHED)
    height = len(tasks) // 3
    yield "| task | Troupe | published " * 3 + "|"
    yield "|---" * 9 + "|"
    for first in range(height):
        cells = []
        for task in tasks[first::height]:
            _, least, greatest = PUBLISHED[task][-1]
            cells.append(f"{task} | {float(rows[task]['return_mean']):.0f} | {least}-{greatest}")
        yield f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sweep", help="its directory")
    parser.add_argument("--short", action="store_true", help="the returns in the end alone, three tasks a line")
    options = parser.parse_args()
    rows = rows_of(options.sweep)
    print("\n".join((short if options.short else whole)(rows)))


if __name__ == "__main__":
    main()
