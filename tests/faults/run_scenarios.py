#!/usr/bin/env python3
"""Runs the real program on hosts of one machine (namespaces; needs root) while things go wrong, and judges what it did.

    python3 tests/faults/run_scenarios.py --list               names, what each does
    python3 tests/faults/run_scenarios.py F1_env_actor_killed  one, or several; --seed N chooses the moments
    python3 tests/faults/run_scenarios.py --all                all but the long ones; --long: those too
    python3 tests/faults/run_scenarios.py --replay 7           the recorded schedules of seed 7 again, fault by fault

Each trial leaves OUT/SCENARIO-SEED/: schedule.json (what --replay repeats), the run's own folder run/, launcher.txt,
observed.jsonl and result.json. The last lines are a table of what was measured. The exit status is 0 when all held, 1
when something did not, 77 when the only scenario was skipped because the machine lacks something.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build/release"
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from harness.requirements import reason_to_skip  # noqa: E402
from harness.schedule import Schedule  # noqa: E402
from harness.testing import SKIPPED  # noqa: E402
from harness.trial import Trial  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SCENARIO")
    parser.add_argument("--list", action="store_true", help="names of the scenarios and what they do")
    parser.add_argument("--tier", choices=["ci", "slow"], help="with --list: only the names of those")
    parser.add_argument("--all", action="store_true", help="every scenario but the long ones")
    parser.add_argument("--long", action="store_true", help="the long ones too")
    parser.add_argument("--seed", type=int, help="default: from the clock, printed")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="with the seeds from --seed on")
    parser.add_argument("--replay", type=int, metavar="SEED", help="repeat the recorded schedules of this seed")
    parser.add_argument("--out", type=pathlib.Path, default=BUILD / "faults", metavar="DIR")
    parser.add_argument("--program", default=str(BUILD / "bin/troupe"), help="default: build/release/bin/troupe")
    return parser.parse_args(argv)


def chosen_schedules(options):
    """(scenario, schedule) of each trial."""
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    unknown = set(options.names) - set(by_name)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; --list has the names")
    if options.replay is not None:
        recorded = [Schedule.read(path) for path in sorted(options.out.glob(f"*-{options.replay}/schedule.json"))]
        recorded = [one for one in recorded if not options.names or one.scenario in options.names]
        if not recorded:
            sys.exit(f"{options.out} holds no schedule of seed {options.replay}")
        return [(by_name[one.scenario], one) for one in recorded]
    wanted = [by_name[name] for name in options.names] or [
        scenario for scenario in SCENARIOS if options.long or options.all and scenario.tier != "long"]
    if not wanted:
        sys.exit("nothing to do: name scenarios, or --all")
    first = options.seed if options.seed is not None else int(time.time()) % 1_000_000
    return [(scenario, Schedule.make(scenario.name, seed, scenario.plan))
            for scenario in wanted for seed in range(first, first + options.repeat)]


def commit():
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def print_table(rows):
    """Medians and worst cases of (scenario, measurement), and how busy the machine was."""
    grouped = {}
    for name, one in rows:
        grouped.setdefault((name, one.what, one.limit_s), []).append(one.seconds)
    if grouped:
        print("\n| scenario | what | median | worst | never | limit | runs |\n|---|---|---|---|---|---|---|")
        for (name, what, limit_s), seconds in grouped.items():
            known = [one for one in seconds if one is not None]
            middle, worst = (f"{statistics.median(known):.2f} s", f"{max(known):.2f} s") if known else ("-", "-")
            print(f"| {name} | {what} | {middle} | {worst} | {len(seconds) - len(known) or '-'} | {limit_s:g} s | "
                  f"{len(seconds)} |")
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[1]:.1f} in the last 5 minutes")


def main(argv=None):
    options = parse(argv)
    if options.list:
        for scenario in SCENARIOS:
            if options.tier is None:
                print(f"{scenario.name:<28} {scenario.tier:<5} {scenario.summary}")
            elif scenario.tier == options.tier:
                print(scenario.name)
        return 0
    trials = chosen_schedules(options)
    rows, failed, skipped = [], 0, 0
    for scenario, schedule in trials:
        print(f"{scenario.name} seed {schedule.seed}: {scenario.summary}", flush=True)
        if reason := reason_to_skip(scenario.needs):
            print(f"  SKIPPED {scenario.name}: {reason}")
            skipped += 1
            continue
        folder = options.out / f"{scenario.name}-{schedule.seed}"
        os.environ.setdefault("TROUPE_WALL_CLOCK_LIBRARY", str(BUILD / "tests/faults/libwall_clock.so"))
        emulator = os.environ.get("TROUPE_DELAY_EMULATOR", str(BUILD / "bin/delay_emulator"))
        trial = Trial(scenario, schedule, folder, options.program.split(), ROOT, emulator, commit(),
                      say=lambda text: print(text, flush=True))
        good = trial.run()
        failed += not good
        for line in trial.measurements:
            print(f"  {line}")
        for line in trial.wrong:
            print(f"  WRONG: {line}")
        print(f"  {'ok' if good else f'FAILED, see {folder}'}", flush=True)
        rows += [(scenario.name, one) for one in trial.measurements]
    print_table(rows)
    print(f"{len(trials) - failed - skipped} held, {failed} failed, {skipped} skipped")
    return 1 if failed else SKIPPED if skipped == len(trials) == 1 else 0


if __name__ == "__main__":
    sys.exit(main())
