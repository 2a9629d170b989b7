#!/usr/bin/env python3
"""What the images of an SN-GAN depend on: runs of one configuration after equally many steps, by Troupe's judge.

    python3 bench/apps/sngan_variants.py batch --seeds 1 2 3 --plot gan_batch.svg    global batch 8, 32, 128, 512, by replicas
    python3 bench/apps/sngan_variants.py roles --seeds 1 2 3                         both sides in one step, and two roles
    ... --steps 500                                                                  shorter
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("TROUPE_BIN_DIR", ROOT / "build" / "release" / "bin"))
SCORES = ("frechet_distance", "inception_score")


@dataclasses.dataclass(frozen=True)
class Study:
    config: str
    group: str
    steps: int
    common: dict  # settings of [replicas.GROUP]
    variants: dict  # name -> further settings


ROWS = 8  # of a step of each replica of the study `batch`
STUDIES = {
    # Of linear layers, so that 64 replicas come to good images on two cores; batch norm is over the global batch.
    "batch": Study(
        "sngan_mlp.toml",
        "sngan",
        3000,
        {"replicator": "multi_device", "ema_decay": 0.99},
        {str(rows): {"batch_size": rows, "count": rows // ROWS} for rows in (8, 32, 128, 512)},
    ),
    "roles": Study(
        "gan_async.toml",
        "gan",
        5000,
        {},
        {"one synchronous step": {"replicator": "multi_worker", "count": 2, "discriminators": 1, "discriminator_nodes": 1},
         "two roles": {}},
    ),
}


def train(config, group, settings, seed):
    """One run of `troupe train`. Returns (its last evaluation, seconds)."""
    steps = settings["steps"]
    options = [f"seed={seed}", *(f"replicas.{group}.{key}={value}" for key, value in settings.items()),
               f"replicas.{group}.evaluate_every_steps={steps}"]
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        command = [BIN / "troupe", "train", config, "--quiet", "--run-dir", run]
        begun = time.monotonic()
        subprocess.run(command + [word for option in options for word in ("--set", option)], check=True)
        seconds = time.monotonic() - begun
        return json.loads((run / "summary.json").read_text())["replicas"][group]["evaluation"], seconds


def table(first, results):
    """results: {name: [(scores, seconds) of a seed]}; medians, and ranges in brackets, as Markdown."""
    lines = [f"| {first} | " + " | ".join(SCORES) + " | wall time |", "|---|" + "---|" * (len(SCORES) + 1)]
    for name, runs in results.items():
        cells = []
        for score in SCORES:
            values = sorted(run[0][score] for run in runs)
            cells.append(f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {statistics.median(run[1] for run in runs):.0f} s |")
    return "\n".join(lines)


def plot(results, x_title):
    """Frechet distances as SVG: a dot for each seed, a line through the medians; variants at equal distances."""
    width, height, left, right, top, bottom = 560, 320, 64, 16, 16, 48
    values = {name: [scores["frechet_distance"] for scores, _ in runs] for name, runs in results.items()}
    highest = max(max(v) for v in values.values()) * 1.05
    x_of = lambda i: left + (i + 0.5) * (width - left - right) / len(values)
    y_of = lambda v: top + (1 - v / highest) * (height - top - bottom)
    text = lambda x, y, anchor, what, more="": f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{what}</text>'
    step = 10 ** (len(str(int(highest))) - 1)
    step = step if highest / step >= 3 else step / 4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for i in range(int(highest / step) + 1):
        y = y_of(i * step)
        parts.append(f'<path d="M{left} {y:.1f}H{width - right}" stroke="#ddd"/>')
        parts.append(text(left - 8, y + 4, "end", f"{i * step:g}"))
    line = " ".join(f"{x_of(i):.1f},{y_of(statistics.median(v)):.1f}" for i, v in enumerate(values.values()))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
    for i, (name, seeds) in enumerate(values.items()):
        parts.append(text(x_of(i), height - bottom + 18, "middle", name))
        parts += [f'<circle cx="{x_of(i):.1f}" cy="{y_of(v):.1f}" r="4" fill="#1f77b4" fill-opacity="0.6"/>' for v in seeds]
    middle = (top + height - bottom) / 2
    parts.append(text((left + width - right) / 2, height - 10, "middle", x_title))
    parts.append(text(18, middle, "middle", "Frechet distance", f' transform="rotate(-90 18 {middle:.1f})"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, help="instead of the study's own")
    parser.add_argument("--plot", type=pathlib.Path, help="an SVG of the Frechet distances")
    arguments = parser.parse_args()
    study = STUDIES[arguments.study]
    common = study.common | {"steps": arguments.steps or study.steps}
    results = {name: [] for name in study.variants}
    for seed in arguments.seeds:
        for name, more in study.variants.items():
            scores, seconds = train(ROOT / "apps" / "configs" / study.config, study.group, common | more, seed)
            results[name].append((scores, seconds))
            print(f"# {name}, seed {seed}: {scores}, {seconds:.0f} s", file=sys.stderr, flush=True)
            if arguments.plot and all(results.values()):
                arguments.plot.write_text(plot(results, f"{arguments.study} ({common['steps']} steps)"))
    print(table(f"{arguments.study}, {common['steps']} steps", results))


if __name__ == "__main__":
    main()
