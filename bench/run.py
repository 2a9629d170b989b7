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
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
BIN = pathlib.Path(os.environ.get("TROUPE_BIN_DIR", BUILD / "bin"))


@dataclasses.dataclass(frozen=True)
class Packaged:
    """A rival in C++ that is built only where its Debian package is there: nothing else needs it."""

    target: str
    package: str


@dataclasses.dataclass(frozen=True)
class Bench:
    summary: str
    troupe: str  # a CMake target, or a script under bench/
    rivals: dict  # name -> (environment of tools/python_env.sh, script under bench/), or a CMake target, or Packaged
    better: str = "higher"
    repeats: int = 5
    timeout_s: int = 300  # for one run of one side
    programs: tuple = ()  # further CMake targets that its script runs
    seconds: int = 0  # how long a row goes on, for benches where --seconds can say so
    gpu: "OnGpu | None" = None


@dataclasses.dataclass(frozen=True)
class OnGpu:
    """What a bench has instead with --device; the same meanings."""

    troupe: str
    rivals: dict
    timeout_s: int = 1800  # rivals compile, and at first tune, for minutes
    repeats: int = 5


# Every bench there is. What a row measures stands in the program that measures it.
BENCHES = {
    "learner": Bench(
        "one D4PG learner step, batch 256",
        "learner_bench",
        {
            "jax": ("jax", "learner/rivals/jax_learner.py"),
            "jax_bf16": ("jax", "learner/rivals/jax_bf16_learner.py"),
            "torch": ("torch", "learner/rivals/torch_learner.py"),
        },
        gpu=OnGpu(
            "learner_gpu_bench",
            {
                "jax": ("gpu", "learner/rivals/jax_gpu_learner.py"),
                "torch": ("gpu", "learner/rivals/torch_gpu_learner.py"),
                "jax_cpprb": ("gpu", "learner/rivals/jax_gpu_host_replay.py"),
                "torch_cpprb": ("gpu", "learner/rivals/torch_gpu_host_replay.py"),
            },
        ),
    ),
    "pixels": Bench(
        "one D4PG learner step from images of 84 x 84 x 9, batch 256",
        "",
        {},
        gpu=OnGpu(
            "pixels_gpu_bench",
            {
                "jax": ("gpu", "learner/rivals/jax_gpu_pixels.py"),
                "torch": ("gpu", "learner/rivals/torch_gpu_pixels.py"),
            },
        ),
    ),
    "pixels_scaling": Bench(
        "one D4PG learner step from 84 x 84 x 9 at a total batch of 256, shared by 1, 2 and 4 learners",
        "pixels_scaling_bench",
        {},
        timeout_s=900,
    ),
    "agents": Bench(
        "one learner step of SAC, TD3, DMPO (batch 256) and FlashSAC (512) at their published sizes",
        "agents_bench",
        {
            "jax": ("jax", "learner/rivals/jax_agents.py"),
            "torch": ("torch", "learner/rivals/torch_agents.py"),
        },
        timeout_s=600,
    ),
    "replicators": Bench("one D4PG learner step, batch 256, under each replicator", "replicators_bench", {}),
    "inference": Bench(
        "the policy's forward pass at batch 1, 16 and 256",
        "inference_bench",
        {
            "jax": ("jax", "learner/rivals/jax_inference.py"),
            "torch_jit": ("torch", "learner/rivals/torch_jit_inference.py"),
        },
    ),
    "conv": Bench("one convolution layer, forward and both gradients, beside oneDNN alone", "convolution_bench", {}),
    "sngan": Bench(
        "one training step of the paper's SN-GAN for CIFAR-10, batch 64, and shared by two processes",
        "sngan_bench",
        {
            "torch": ("torch", "learner/rivals/torch_sngan_step.py"),
            "torch_fp32": ("torch", "learner/rivals/torch_fp32_sngan_step.py"),
        },
        timeout_s=900,
        gpu=OnGpu("sngan_bench", {"torch": ("gpu", "learner/rivals/torch_gpu_sngan.py")}),
    ),
    "resnet50": Bench(
        "one training step of ResNet-50 on 8 images of 224 x 224, and shared by two processes",
        "resnet_bench",
        {
            "torch": ("torch", "learner/rivals/torch_resnet50.py"),
            "torch_fp32": ("torch", "learner/rivals/torch_fp32_resnet50.py"),
        },
        timeout_s=600,
        gpu=OnGpu("resnet_bench", {"torch": ("gpu", "learner/rivals/torch_gpu_resnet50.py")}),
    ),
    "resnet50_memory": Bench(
        "memory of a process that takes these steps",
        "resnet_memory_bench",
        {"torch": ("torch", "learner/rivals/torch_resnet50_memory.py")},
        better="lower",
        repeats=1,
    ),
    "devices": Bench("one replica over two devices: branches, a pipeline, split layers", "devices_bench", {}),
    "input": Bench(
        "images for ResNet-50 read, decoded, augmented and put into batches",
        "input_bench",
        {
            "pillow": ("torch", "data/rivals/torch_pillow_input.py"),
            "torchvision": ("torch", "data/rivals/torch_tensor_input.py"),
        },
    ),
    "envs": Bench(
        "environment steps, the Control Suite and classic control",
        "envs_bench",
        {
            "dm_control": ("envs", "envs/rivals/dm_control_envs.py"),
            "envpool": ("envs", "envs/rivals/envpool_envs.py"),
            "gymnasium": ("envs", "envs/rivals/gymnasium_envs.py"),
        },
    ),
    "env_pixels": Bench(
        "environment steps that are drawn, 84 x 84 x 9",
        "env_pixels_bench",
        {"dm_control": ("envs", "envs/rivals/dm_control_pixels.py")},
    ),
    "replay": Bench(
        "inserts, samples and priority updates in process",
        "replay_bench",
        {"reverb": ("reverb", "replay/rivals/reverb_replay.py"), "cpprb": ("torch", "replay/rivals/cpprb_replay.py")},
        gpu=OnGpu(
            "replay_gpu_bench",
            {
                "torchrl": ("gpu", "replay/rivals/torchrl_gpu_replay.py"),
                "torch": ("gpu", "replay/rivals/torch_gpu_replay.py"),
            },
        ),
    ),
    "replay_pixels": Bench(
        "stacks of images in replay: items in a GiB, inserts and samples, beside rows that hold whole stacks",
        "replay_pixels_bench",
        {},
    ),
    "journal": Bench("what replay's journal costs an insert, and how fast 1 GiB is back after a kill", "journal_bench", {}),
    "actors": Bench(
        "messages between actors in one process: request-reply and 1 MiB frames",
        "actors_bench",
        {"ray": ("ray", "actors/rivals/ray_actors.py")},
    ),
    "shards": Bench(
        "replay in one and in two shards, in one process",
        "shards_bench",
        {},
    ),
    "parameter_server": Bench(
        "push and pull of 25 million parameters by 1, 2 and 4 workers, in one process and over processes",
        "parameter_server_bench",
        {},
    ),
    "replay_nodes": Bench(
        "inserts and batches of 256 with replay in a process of its own, state and pixels",
        "replay_nodes_bench",
        {"reverb": ("reverb", "actors/rivals/reverb_replay_nodes.py")},
    ),
    "env_scaling": Bench(
        "steps of a stub environment over 1, 2, 4 and 8 env-actor processes",
        "env_scaling_bench",
        {},
    ),
    "memory": Bench(
        "resident memory with a consumer 100 times slower than its producer",
        "memory_bench",
        {},
        better="lower",
        repeats=1,
        seconds=20,
    ),
    "faults": Bench(
        "how soon a process that was killed or hangs is noticed, and its work goes on",
        "apps/faults.py",
        {},
        better="lower",
    ),
    "nodes": Bench(
        "what 16 to 256 real and 4,096 simulated nodes cost that do next to nothing: all in, the chief, a checkpoint",
        "nodes_bench",
        {},
        better="lower",
        repeats=3,
        timeout_s=900,
    ),
    "shared_memory": Bench(
        "frames between roles in two processes of one host, read by the other",
        "shared_memory_bench",
        {
            "ray": ("ray", "actors/rivals/ray_shared_memory.py"),
            "memcpy": ("ray", "actors/rivals/memcpy_shared_memory.py"),
        },
    ),
    "collectives": Bench(
        "all-reduces between threads of one process and between processes of one host",
        "collectives_bench",
        {
            "gloo": ("torch", "collectives/rivals/gloo_collectives.py"),
            "openmpi": Packaged("openmpi_bench", "libopenmpi-dev openmpi-bin"),
            "mpich": Packaged("mpich_bench", "libmpich-dev mpich"),
        },
    ),
    "collectives_hosts": Bench(
        "all-reduces between hosts (network namespaces) over TLS, against the links' own rate",
        "collectives_hosts_bench",
        {},
    ),
    "link": Bench(
        "messages over a stream between nodes on two hosts (network namespaces)",
        "link_bench",
        {"openssl": "openssl_bench", "grpc": Packaged("grpc_bench", "libgrpc++-dev")},
    ),
    "control": Bench(
        "small messages there and back on the urgent lane, idle and beside 64 MiB frames",
        "control_bench",
        {"caf": "caf_control_bench"},
        better="lower",
    ),
    "learner_group": Bench(
        "the return of D4PG with 1, 2 and 4 learners after equally many steps; one is lost on the way",
        "apps/learner_group.py",
        {},
        repeats=3,  # each with another seed
        timeout_s=3600,
        programs=("learner_group_threads",),
    ),
    "train": Bench(
        "wall time until cartpole-swingup returns 800",
        "apps/train.py",
        {"torch": ("torch", "apps/rivals/torch_train.py")},
        better="lower",
        repeats=1,
        timeout_s=4000,  # the sides give up by themselves after an hour
        gpu=OnGpu("apps/train_gpu.py", {}, timeout_s=4000, repeats=1),
    ),
    "train_agents": Bench(
        "wall time until SAC walks (900) and TD3 runs (300), and of a step on the way",
        "apps/train_agents.py",
        {"sb3": ("torch", "apps/rivals/sb3_train_agents.py")},
        better="lower",
        repeats=1,
        timeout_s=11000,  # the sides give up by themselves
    ),
}


class BenchError(Exception):
    """One line that says which side failed and how."""


class NoGpu(BenchError):
    """The machine has no such GPU: for no bench."""


@dataclasses.dataclass(frozen=True)
class Sample:
    value: float
    unit: str
    version: str = ""
    limits: dict = dataclasses.field(default_factory=dict)


def parse_program(text):
    """Row name -> Sample, from google-benchmark's JSON."""
    samples, report = {}, json.loads(text)
    version = report.get("context", {}).get("version", "")
    for entry in report["benchmarks"]:
        if entry.get("run_type") == "aggregate":
            continue
        name = entry["name"].split("/")[0]
        if entry.get("error_occurred"):
            raise BenchError(f"row {name}: {entry.get('error_message')}")
        value = entry.get("value", entry.get("items_per_second"))
        if value is None:
            raise BenchError(f"row {name} has neither a counter named value nor items_per_second")
        if name in samples:
            raise BenchError(f"two benchmarks make the row {name}")
        limits = {key.removeprefix("vs_"): limit for key, limit in entry.items() if key.startswith("vs_")}
        samples[name] = Sample(value, entry.get("label", ""), version, limits)
    return samples


def parse_script(text):
    """Row name -> Sample, from one JSON object a line. Other lines are chatter of the rival's libraries."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            limits = {name: float(limit) for name, limit in row.get("limits", {}).items()}
            samples[row["name"]] = Sample(float(row["value"]), row["unit"], row["version"], limits)
    return samples


@dataclasses.dataclass(frozen=True)
class Side:
    """Troupe or one rival: a command that measures every row once."""

    name: str
    command: list
    environment: dict
    is_program: bool
    timeout_s: int

    def measure(self, repeat):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            arguments = [f"--benchmark_out={report}", "--benchmark_out_format=json"] if self.is_program else []
            environment = os.environ | self.environment | {"TROUPE_BENCH_REPEAT": str(repeat)}
            try:
                done = subprocess.run(
                    self.command + arguments, env=environment, capture_output=True, text=True, timeout=self.timeout_s
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BenchError(f"{self.name}: {error}") from None
            if done.returncode != 0:
                last_lines = " | ".join(done.stderr.strip().splitlines()[-2:])
                raise BenchError(f"{self.name}: exit status {done.returncode}: {last_lines}")
            try:
                samples = parse_program(report.read_text()) if self.is_program else parse_script(done.stdout)
            except (BenchError, OSError, ValueError, KeyError) as error:
                raise BenchError(f"{self.name}: {type(error).__name__}: {error}") from None
        if not samples or not all(sample.value > 0 for sample in samples.values()):
            raise BenchError(f"{self.name}: expected positive values for some rows, got {samples}")
        return samples


def machine():
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cpu[1] if cpu else platform.machine()}, {cores} cores, {memory_gib:.0f} GiB, {platform.freedesktop_os_release()['PRETTY_NAME']}"


def run(bench, sides, repeats, say):
    """The rows of the report; sides[0] is Troupe."""
    results = {side.name: [] for side in sides}
    for repeat in range(repeats):
        for side in sides:
            say(f"repeat {repeat + 1} of {repeats}: {side.name}")
            results[side.name].append(side.measure(repeat))
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
        bench, troupe=gpu.troupe, rivals=gpu.rivals, timeout_s=gpu.timeout_s, repeats=gpu.repeats, programs=()
    )


def chosen_rivals(bench, options):
    # Of all benches together each leaves out what it has.
    unknown = [name for name in options.without if name not in bench.rivals and options.name is not None]
    if unknown or (options.without and not options.rivals):
        raise BenchError(f"--without {' '.join(options.without)}: needs --rivals, which are {', '.join(bench.rivals) or 'none'}")
    if not bench.troupe:
        raise BenchError("this bench is for GPUs alone: --device cuda")
    return {name: rival for name, rival in bench.rivals.items() if options.rivals and name not in options.without}


def find_gpu(doctor, device):
    """What `troupe doctor` has printed about the device: its name and the versions below it, or an error in its words."""
    lines = dict(re.findall(r"^(\S+) +(.*)$", doctor, re.MULTILINE))
    if device not in lines:
        words = [f"{name}: {lines[name]}" for name in ("plug-in", "driver", "devices") if name in lines]
        found = [f"{name}: {about}" for name, about in lines.items() if name.startswith("cuda:")]
        raise NoGpu(f"{device}: no such GPU; `troupe doctor` says: " + "; ".join(found or words))
    known = [lines[device]] + [f"{name} {lines[name]}" for name in ("driver", "cuDNN") if name in lines]
    return "; ".join(known)


def find_packages(rivals):
    """Packages of rivals that are not there end the run: a rival must not be missing from a table unnoticed."""
    needed = {rival.target: rival.package for rival in rivals.values() if isinstance(rival, Packaged)}
    if not needed:
        return
    configured = subprocess.run(["cmake", BUILD], capture_output=True, text=True)
    known = subprocess.run(["cmake", "--build", BUILD, "--target", "help"], capture_output=True, text=True).stdout
    missing = [package for target, package in needed.items() if not re.search(rf"^{target}:", known, re.MULTILINE)]
    if configured.returncode != 0 or missing:
        raise BenchError(f"for its rivals it needs the packages: apt-get install {' '.join(missing)}")


def build(targets):
    built = subprocess.run(["cmake", "--build", BUILD, "--target", *targets], capture_output=True, text=True)
    if built.returncode != 0:
        raise BenchError(f"building {' and '.join(targets)} failed:\n" + "\n".join(built.stdout.splitlines()[-20:]))


def interpreter(name, environment):
    """The Python of a rival."""
    if given := os.environ.get("TROUPE_RIVALS_PYTHON"):
        return given
    made = subprocess.run([ROOT / "tools" / "python_env.sh", environment], stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise BenchError(f"{name}: its Python environment could not be made")
    return made.stdout.strip()


# Names that XLA, oneDNN, ATen and MKL have for what TROUPE_MAX_ISA holds Troupe down to.
INSTRUCTION_SETS = {
    "sse41": ("SSE4_2", "SSE41", "default", "SSE4_2"),
    "avx": ("AVX", "AVX", "default", "AVX"),
    "avx2": ("AVX2", "AVX2", "avx2", "AVX2"),
    "avx512": ("AVX512", "AVX512_CORE", "avx512", "AVX512"),
}


def hold_down():
    """What the environment of a rival holds, so that no rival has instructions that Troupe is denied."""
    held = INSTRUCTION_SETS.get(os.environ.get("TROUPE_MAX_ISA", ""))
    if held is None:
        return {}
    xla, onednn, aten, mkl = held
    return {
        "XLA_FLAGS": f"--xla_cpu_max_isa={xla}",
        "ONEDNN_MAX_CPU_ISA": onednn,
        "ATEN_CPU_CAPABILITY": aten,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
    }


def prepare(bench, rivals, device):
    """Builds and installs what the sides need, and returns them, the first is Troupe's, and what is known of the GPU."""
    is_program = not bench.troupe.endswith(".py")
    programs = {n: r.target if isinstance(r, Packaged) else r for n, r in rivals.items() if not isinstance(r, tuple)}
    if "TROUPE_BIN_DIR" not in os.environ:
        find_packages(rivals)
        targets = [bench.troupe] if is_program else []
        targets += ["troupe"] if device or not is_program else []
        build([*targets, *bench.programs, *programs.values()] + ["mkl_shim"] * bool(rivals))
    gpu = None
    if device:  # before anything is installed
        doctor = subprocess.run([BIN / "troupe", "doctor"], capture_output=True, text=True)
        gpu = find_gpu(doctor.stdout, device)
    on_device = {"TROUPE_BENCH_DEVICE": device} if device else {}
    command = [str(BIN / bench.troupe)] if is_program else [sys.executable, str(ROOT / "bench" / bench.troupe)]
    sides = [Side("troupe", command, on_device, is_program, bench.timeout_s)]
    for name, target in programs.items():
        sides.append(Side(name, [str(BIN / target)], {}, True, bench.timeout_s))
    for name, (environment, script) in ((n, r) for n, r in rivals.items() if n not in programs):
        python = interpreter(name, environment)
        # MKL inside PyTorch takes its AVX-512 paths on AMD processors only with this, and rivals are to run at their best.
        preload = {"LD_PRELOAD": str(BUILD / "bench" / "libmkl_shim.so")} if environment == "torch" else {}
        command = [python, str(ROOT / "bench" / script)]
        sides.append(Side(name, command, on_device | preload | hold_down(), False, bench.timeout_s))
    return sides, gpu


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
    if options.name and options.seconds and not BENCHES[options.name].seconds:
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

    def say(text):
        print(f"bench {name}: {text}", file=sys.stderr, flush=True)

    bench = BENCHES[name]
    if bench.seconds:
        seconds = options.seconds or bench.seconds
        os.environ["TROUPE_BENCH_SECONDS"] = str(seconds)
        bench = dataclasses.replace(bench, timeout_s=bench.timeout_s + 4 * seconds)
    if options.device:
        bench = on_gpu(name, bench, options.device)
    rivals = chosen_rivals(bench, options)
    sides, gpu = prepare(bench, rivals, options.device)
    rows = run(bench, sides, options.repeats or bench.repeats, say)
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


if __name__ == "__main__":
    main()
