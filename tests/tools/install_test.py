#!/usr/bin/env python3
"""Does with an installed Troupe what a user does (docs/installing.md): installs the build, moves the prefix, runs the
program from there, builds examples/ and a program of its own with find_package(Troupe), and runs them. The environment
has neither the user's cache nor the tree, so whatever still points there fails.

    install_test.py BUILD_DIR
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M))

# Each example: its arguments, and a line that it then prints.
EXAMPLES = {
    "hello_topology": {f"train EXAMPLES/hello_topology.toml --run-dir roles{how}": r"mean of 100 measurements: 2[01]"
                       for how in ("-here", "-there --processes")},
    # Of several replicators; the loss of guessing is ln 3 = 1.1.
    "hello_replica": {f"train EXAMPLES/hello_replica.toml --run-dir {replicator} --set replicas.spirals.count={count} "
                      f"--set replicas.spirals.replicator={replicator}{how}": r"spirals +300 steps, loss 0\.[0-4]"
                      for replicator, count, how in (("one_device", 1, ""), ("multi_device", 2, ""),
                                                     ("multi_worker", 2, " --processes"), ("parameter_server", 2, ""))},
    "hello_op": {"": r"^centre 1\.333, loss 24\.583"},
    # Any arms return 5, the right ones 20.
    "hello_agent": {f"train EXAMPLES/hello_agent.toml --run-dir casino{how}": r"final return +(19|20)\.\d"
                    for how in ("-here", "-there --processes")},
    "hello_environment": {"train EXAMPLES/hello_environment.toml --run-dir valley --set max_learner_steps=150 "
                          "--set replay.min_items=200 --set learner.batch_size=16": "max_learner_steps"},
}
OWN_PROGRAM = """
#include <iostream>

int main() {
  const auto made = troupe::envs::make_environment("cartpole-swingup", 1);
  if (!made.ok()) std::cerr << made.error().message << std::endl;
  if (made.ok()) std::cout << troupe::installation().shared.string() << std::endl;
  return made.ok() ? 0 : 1;
}
"""
OWN_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(own LANGUAGES CXX)
find_package(Troupe REQUIRED)
add_executable(own own.cpp)
target_link_libraries(own PRIVATE Troupe::troupe)
"""
OUTER_PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(outer LANGUAGES CXX)
add_subdirectory({ROOT} troupe)
add_executable(outer own.cpp)
target_link_libraries(outer PRIVATE Troupe::troupe)
"""


def run(*command, expect=0):
    """The output of a command that must end with the status `expect`, or with any but 0 if that is None."""
    ended = subprocess.run([str(word) for word in command], cwd=work, env=environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    if (ended.returncode == 0) if expect is None else ended.returncode != expect:
        sys.exit(f"{' '.join(map(str, command))}: exit status {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def check(condition, what):
    if not condition:
        sys.exit(what)


def configure(source, build, *options):
    return ["cmake", "-G", CACHE["CMAKE_GENERATOR"], "-S", source, "-B", build,
            f"-DCMAKE_CXX_COMPILER={CACHE['CMAKE_CXX_COMPILER']}", *options]


def install():
    """The prefix, which is not where it was installed to."""
    run("cmake", "--install", BUILD, "--prefix", work / "first")
    (work / "first").rename(work / "moved")
    return work / "moved"


def check_program():
    troupe = prefix / "bin/troupe"
    check(run(troupe, "version").startswith("troupe "), "the installed program does not say its version")
    for line in run("ldd", troupe).splitlines():
        check("not found" not in line, f"the installed program lacks a library: {line}")
        if "libmujoco" in line or "libdnnl" in line:
            check(str(prefix / "lib/troupe") in os.path.normpath(line.split()[2]), f"not of the installation: {line}")
    said = run(troupe, "train", "cartpole_swingup", "--run-dir", "run", "--set", "max_env_steps=3000")
    check(f"configuration cartpole_swingup: {prefix}/share/troupe/configs" in said, f"another configuration:\n{said}")
    check((work / "run/summary.json").exists(), f"no run was recorded:\n{said}")
    models = prefix / "share/troupe/dm_control"
    models.rename(f"{models}.away")
    said = run(troupe, "envs", expect=1)
    check(f"model file {models}/suite/" in said, f"models of another place are used:\n{said}")
    pathlib.Path(f"{models}.away").rename(models)


def check_headers():
    """Everything that a header includes of Troupe is installed. Returns all headers but those for CUDA's compiler."""
    include = prefix / "include"
    headers = sorted(path.relative_to(include).as_posix() for path in (include / "troupe").rglob("*.h*")
                     if "third_party" not in path.parts)
    check(len(headers) > 200, f"only {len(headers)} headers are installed")
    for header in headers:
        for included in re.findall(r'^\s*#\s*include\s*[<"](troupe/[^>"]+)', (include / header).read_text(), re.M):
            check((include / included).exists(), f"{header} includes {included}, which is not installed")
    check((include / "troupe/messages/envelope.capnp").exists(), "the schemas are not installed")
    return [header for header in headers if not header.startswith("troupe/gpu/kernels/")]


def build_programs(headers):
    """The examples, and a program that includes every header; both know no more than the prefix."""
    own = work / "own"
    own.mkdir()
    (own / "CMakeLists.txt").write_text(OWN_PROJECT)
    (own / "own.cpp").write_text("".join(f"#include <{header}>\n" for header in headers) + OWN_PROGRAM)
    examples = prefix / "share/troupe/examples"
    given = f"-DCMAKE_PREFIX_PATH={prefix}"
    missing = run(*configure(examples, work / "missing", given, "-DCMAKE_DISABLE_FIND_PACKAGE_GIF=ON"), expect=None)
    check("apt-get install libgif-dev" in missing, f"a missing package is not named:\n{missing}")
    run(*configure(examples, work / "build/examples", given))
    run(*configure(own, work / "build/own", given))
    run("cmake", "--build", work / "build/examples", "--parallel", "2")
    run("cmake", "--build", work / "build/own")
    found = run(work / "build/own/own").strip()
    check(found == f"{prefix}/share/troupe", f"a program of one's own finds its models in {found}")


def run_examples():
    sources = {path.stem for path in (ROOT / "examples").glob("*.cpp")}
    check(sources == set(EXAMPLES), f"examples/ has {sorted(sources)}, and EXAMPLES says what {sorted(EXAMPLES)} print")
    for name, runs in EXAMPLES.items():
        for arguments, expected in runs.items():
            placed = arguments.replace("EXAMPLES", str(prefix / "share/troupe/examples"))
            said = run(work / "build/examples" / name, *placed.split())
            check(re.search(expected, said, re.M), f"{name} {arguments}: expected {expected}, got\n{said}")


def check_part_of_another_project():
    """The tree within another project: everything resolves there too, and no test or bench is made."""
    outer = work / "outer"
    outer.mkdir()
    (outer / "CMakeLists.txt").write_text(OUTER_PROJECT)
    shutil.copy(work / "own/own.cpp", outer)
    folders = [f"-D{name}={CACHE[name]}" for name in ("TROUPE_MUJOCO_DIR", "TROUPE_DM_CONTROL_DIR", "TROUPE_ONEDNN_DIR", "TROUPE_UPLOT_DIR")]
    run(*configure(outer, work / "build/outer", "-DTROUPE_CUDA=OFF", *folders))
    targets = run("cmake", "--build", work / "build/outer", "--target", "help")
    check("troupe_run" in targets and "outer" in targets, f"not all targets are there:\n{targets}")
    for target in "core_test", "envs_bench":
        check(target not in targets, f"{target} is made where Troupe is a part of another project")


if CACHE.get("TROUPE_SANITIZE"):
    print("skipped: programs of a build with sanitizers must be compiled with them too")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder).resolve()
    environment = {name: value for name, value in os.environ.items()
                   if name in ("PATH", "LANG", "TMPDIR", "CCACHE_DIR")} | {"HOME": str(work / "home")}
    (work / "home").mkdir()
    prefix = install()
    check_program()
    build_programs(check_headers())
    run_examples()
    check_part_of_another_project()
print("installed, moved, built against and run")
