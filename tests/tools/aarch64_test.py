#!/usr/bin/env python3
"""core, messages, collectives, replay and learner compile for aarch64: CMake configures a build with cmake/aarch64.cmake, in
a folder that goes away again. Exit status 77 without the compiler.

    aarch64_test.py           all of core and what holds code for one kind of processor, by the compiler's front end
    aarch64_test.py --all     the five libraries, to their object files, which takes minutes
"""

import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = "aarch64-linux-gnu-g++"
FOLDERS = ["core", "messages", "collectives", "replay", "learner"]
FOR_ONE_PROCESSOR = re.compile(
    r"__x86_64__|TROUPE_X86|[a-z]mmintrin|\b_mm\d*_|__m(128|256|512)|__builtin_(ia32|cpu_)|\basm\b"
    r"|<troupe/(learner/engine/cpu/kernels/(isa_bodies|kernel_table)|collectives/detail/reduce_bodies)\.hpp>")


def configure(build, *options):
    nowhere = build / "nowhere"  # oneDNN is not to be had for aarch64
    own = [f"-D{name}={os.environ[name]}" for name in ("TROUPE_MUJOCO_DIR", "TROUPE_DM_CONTROL_DIR") if name in os.environ]
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "--toolchain", ROOT / "cmake/aarch64.cmake",
         f"-DTROUPE_ONEDNN_DIR={nowhere}", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", *options, *own],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"CMake does not configure for aarch64:\n{done.stdout[-4000:]}")


def build_all(build):
    configure(build, "-DCMAKE_UNITY_BUILD=ON")
    done = subprocess.run(["ninja", "-C", build, "-k0", *(f"troupe_{name}" for name in FOLDERS)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout[-8000:])
    return done.returncode


def sources(build):
    """(words of the command, file) of what is compiled in every run of the tests."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = pathlib.Path(entry["file"])
        if not source.is_relative_to(ROOT) or (folder := source.relative_to(ROOT).parts[0]) not in FOLDERS:
            continue
        if folder == "core" or FOR_ONE_PROCESSOR.search(source.read_text(encoding="utf-8")):
            words = shlex.split(entry["command"])  # ccache stands before the compiler: of a front end it keeps no result
            first, at = next(i for i, word in enumerate(words) if word.endswith(COMPILER)), words.index("-o")
            yield words[first:at] + words[at + 2:], str(source.relative_to(ROOT))


def check_some(build):
    configure(build, "-DCMAKE_UNITY_BUILD=OFF", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "-DTROUPE_WERROR=ON")

    def front_end(argv):
        return subprocess.run([*argv, "-fsyntax-only"], cwd=build, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    some = list(sources(build))
    assert {name.split("/")[0] for _, name in some} >= {"core", "collectives", "learner"}, some
    with concurrent.futures.ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 4)) as pool:
        tried = list(pool.map(lambda one: front_end(one[0]), some))
    failed = 0
    for (_, name), done in zip(some, tried):
        if done.returncode != 0:
            failed += 1
            print(f"FAILED for aarch64: {name}\n{done.stdout[:3000]}")
    print(f"{len(some) - failed} of {len(some)} files compile for aarch64")
    return 1 if failed else 0


def main(everything):
    if shutil.which(COMPILER) is None:
        print(f"SKIPPED aarch64: needs {COMPILER} (Debian: g++-aarch64-linux-gnu)")
        return 77
    with tempfile.TemporaryDirectory(prefix="troupe-aarch64-") as folder:
        status = (build_all if everything else check_some)(pathlib.Path(folder))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor")
    return status


if __name__ == "__main__":
    sys.exit(main("--all" in sys.argv[1:]))
