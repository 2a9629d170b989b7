"""The sides of a bench: commands that measure its rows once, Troupe's and those of its rivals; built and installed here."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from benches import Packaged
from progress import Progress

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
BIN = pathlib.Path(os.environ.get("TROUPE_BIN_DIR", BUILD / "bin"))


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
    environment: dict  # None: a variable that it must not see
    is_program: bool
    timeout_s: int

    def measure(self, repeat):
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            arguments = [f"--benchmark_out={report}", "--benchmark_out_format=json"] if self.is_program else []
            environment = os.environ | self.environment | {"TROUPE_BENCH_REPEAT": str(repeat)}
            environment = {name: value for name, value in environment.items() if value is not None}
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
    with Progress(f"building {' and '.join(targets)}") as progress:
        progress.say("compiling")
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
    """What the environment of a rival holds, so that no rival has instructions that Troupe is denied; and none of our
    plug-ins, which JAX would add to its own of the same name and fail."""
    plugins = {"PJRT_NAMES_AND_LIBRARY_PATHS": None}
    held = INSTRUCTION_SETS.get(os.environ.get("TROUPE_MAX_ISA", ""))
    if held is None:
        return plugins
    xla, onednn, aten, mkl = held
    return plugins | {
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
