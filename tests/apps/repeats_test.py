"""Two runs with `--deterministic` are the same run, to the last bit: parameters, metrics and evaluations. Here those of
several instances that wait for each other: learners of an agent, replica groups, both sides of a split GAN, in one
process and, with --processes, in processes that go in step. Also when a run is stopped halfway, and goes on.

    repeats_test.py OneProcess | Processes
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bits_test  # noqa: E402

D4PG = ["max_learner_steps=300", "learner.batch_size=32", "metrics.every_s=0.05", "evaluator.episodes=1",
        "evaluator.every_learner_steps=50", "actors.count=2"]


def images(group, *more):
    return [*bits_test.images(group, "layers=[32]", *more, steps=200), f"replicas.{group}.evaluate_every_steps=50",
            "metrics.every_s=0.05"]


CASES = {
    "learners": ("cartpole_swingup", [*D4PG, "learner.count=2"]),
    "dmpo": ("cartpole_swingup_dmpo", D4PG),
    "group": ("classifier", images("classifier", "replicator=multi_worker", "count=3", "deterministic=false")),
    "split_gan": ("gan_async", images("gan", "count=2", "discriminators=2", "evaluation_images=100")),
}
IN_PROCESSES = {
    "agent": ("cartpole_swingup", D4PG),
    "learners": ("cartpole_swingup", [*D4PG, "learner.count=2", "placement.learner.nodes=2", "actors.count=3",
                                      "placement.actors.nodes=2"]),
    "group": ("classifier", images("classifier", "replicator=multi_worker", "count=3", "nodes=2",
                                   "deterministic=false")),
    "servers": ("classifier", images("classifier", "replicator=parameter_server", "count=2", "nodes=2", "ps_nodes=1",
                                     "deterministic=false")),
}


class Runs:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = os.environ | {"XDG_CACHE_HOME": str(self.folder / "cache")}

    def troupe(self, *arguments):
        words = [os.environ["TROUPE_PROGRAM"], *map(str, arguments)]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")

    def train(self, name, config, settings, *how):
        """The run's directory."""
        run = self.folder / name
        self.troupe("train", bits_test.ROOT / f"apps/configs/{config}.toml", "--deterministic", "--run-dir", run, *how,
                    *(word for key in settings for word in ("--set", key)))
        return run

    def go_on(self, run, config, settings, *how):
        self.troupe("train", bits_test.ROOT / f"apps/configs/{config}.toml", "--resume", run, *how,
                    *(word for key in settings for word in ("--set", key)))

    def traces(self, run):
        """All that a run leaves of what it learnt and did."""
        out = run.parent / f"{run.name}.safetensors"
        self.troupe("export", run, "-o", out)
        traces = {"parameters": bits_test.hash_of(out)}
        for table in ("metrics.csv", "evaluations.csv"):
            traces[table] = (run / table).read_text().splitlines()
        return traces


def expect_same(what, first, second):
    for name, of_first in first.items():
        if of_first == second[name]:
            continue
        where = ""
        if name != "parameters":
            pairs = [(a, b) for a, b in zip(of_first, second[name]) if a != b]
            where = f": {len(of_first)} and {len(second[name])} lines, of which these are the first that differ:\n" + \
                    "\n".join(str(pair) for pair in pairs[:2])
        sys.exit(f"{what}: {name} differ{where}")


def halfway(runs, case, config, settings, key, steps, *how):
    """What a run leaves that ended after half of its steps and went on."""
    run = runs.train(case, config, [*settings, f"{key}={steps // 2}"], *how)
    runs.go_on(run, config, ["deterministic=true", *settings, f"{key}={steps}"], *how)
    return runs.traces(run)


def twice(runs, cases, *how):
    """Each case two times, which must be the same."""
    for case, (config, settings) in cases.items():
        first, second = (runs.traces(runs.train(f"{case}-{i}", config, settings, *how)) for i in (1, 2))
        expect_same(case, first, second)
        if len(second["metrics.csv"]) < 4 or len(second["evaluations.csv"]) < 3:
            sys.exit(f"{case}: got {second}, expected some rows")
        print(case, second["parameters"], f"{len(second['metrics.csv'])} rows", flush=True)


def in_one_process(runs):
    twice(runs, CASES)
    # Two that were interrupted at the same step.
    for case, key, steps in (("learners", "max_learner_steps", 300), ("split_gan", "replicas.gan.steps", 200)):
        first, second = (halfway(runs, f"{case}-halfway-{i}", *CASES[case], key, steps) for i in (1, 2))
        expect_same(f"{case}, resumed", first, second)


def in_processes(runs):
    twice(runs, IN_PROCESSES, "--processes")
    first, second = (halfway(runs, f"learners-halfway-{i}", *IN_PROCESSES["learners"], "max_learner_steps", 300,
                             "--processes") for i in (1, 2))
    expect_same("learners in processes, resumed", first, second)


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"OneProcess": in_one_process, "Processes": in_processes}[sys.argv[1]](Runs(folder))


if __name__ == "__main__":
    main()
