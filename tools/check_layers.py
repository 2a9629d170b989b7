#!/usr/bin/env python3
"""Checks the direction of dependencies: which folder may include which, and who owns which third-party library.

    tools/check_layers.py             checks this tree; prints one line a violation and exits with 1 if there is one
    tools/check_layers.py --self-test checks the checker: a tree with one violation of each kind must give exactly those

The tables below are the rules of docs/architecture.md. Only the text of #include lines is read, so it takes no build.
"""

import pathlib
import re
import sys
import tempfile

# Which folders of Troupe a folder may include, itself always among them.
MAY_INCLUDE = {
    "core": set(),
    "messages": {"core"},
    "transport": {"core"},
    "envs": {"core"},
    "data": {"core"},
    "gpu": {"core"},
    "pjrt": {"core"},
    "replay": {"core", "messages", "gpu"},
    "collectives": {"core"},
    "learner": {"core", "messages", "gpu", "pjrt", "collectives"},
    "algorithms": {"core", "envs", "replay", "learner", "collectives"},
    "actors": {"core", "messages", "transport", "envs", "gpu", "replay", "collectives", "learner", "algorithms"},
    "run": {"core", "messages", "transport", "envs", "data", "gpu", "pjrt", "replay", "collectives", "learner",
            "algorithms", "actors"},
    "page": {"core", "run"},
    "apps": {"core", "messages", "transport", "envs", "data", "gpu", "pjrt", "replay", "collectives", "learner",
             "algorithms", "actors", "run", "page"},
}
# The same within a folder, for its sub-folders; a folder that stands here has no sources beside them.
INSIDE = {
    # ops and engine know each other until an op states its rule for each engine beside its shape and gradient.
    "learner": {"graph": set(), "ops": {"graph", "engine"}, "engine": {"graph", "ops"},
                "replicate": {"graph", "ops", "engine"}, "judging": {"graph", "ops", "engine", "replicate"},
                "export": {"graph", "ops", "engine"}},
    "algorithms": {"acting": set(), "agent": {"acting"}, "classifier": set(), "control": set(),
                   **{name: {"acting", "agent", "control"} for name in ("d4pg", "dmpo", "drqv2", "flashsac", "sac", "td3")},
                   "resnet": set(), "sngan": set()},
    "actors": {"runtime": set(), "network": {"runtime"}, "control": {"runtime"}, "roles": {"runtime"}},
}
EVERYTHING = set(MAY_INCLUDE)
MAY_INCLUDE |= {"tests": EVERYTHING, "bench": EVERYTHING | {"tests"},  # runs that are tested and measured alike
                "examples": EVERYTHING}

# Who may include a third-party header: the first row whose pattern matches decides. Paths are prefixes of files here;
# the tests and benches of an owner (tests/FOLDER, bench/FOLDER) may include what the owner may.
OWNERS = [
    (r"spdlog/", ["core/log.cpp"]),
    (r"caf/", ["actors/", "apps/", "tests/system/"]),
    (r"(capnp|kj)/|.*\.capnp\.h$", ["messages/"]),
    (r"openssl/evp\.h$", ["core/", "transport/", "tests/fuzz/"]),  # digests
    (r"httplib\.h", ["page/"]),
    (r"sys/socket\.h", ["transport/", "page/connections", "tests/page/http_server", "tests/system/", "tests/fuzz/"]),
    (r"openssl/|netinet/|arpa/|netdb\.h|sys/un\.h", ["transport/", "tests/page/http_server", "tests/system/", "tests/fuzz/"]),
    (r"mujoco/|EGL/", ["envs/"]),
    (r"zlib\.h|jpeglib\.h|jerror\.h", ["data/", "tests/fuzz/"]),
    (r"nccl\.h", ["collectives/nccl", "collectives/detail/nccl", "tests/collectives/simulated_nccl"]),
    (r"cuda|cublas|cudnn|device_launch_parameters",
     ["gpu/", "collectives/nccl", "collectives/detail/nccl", "tests/collectives/simulated_nccl"]),
    (r"dnnl|oneapi/|Eigen/|unsupported/Eigen", ["learner/"]),
    (r"toml", ["core/"]),
    (r"CLI/", ["apps/"]),
    (r"gtest/|gmock/", ["tests/"]),
    (r"benchmark/", ["bench/"]),
]
# What device code may include besides CUDA and the standard library.
DEVICE_CODE_MAY_INCLUDE = r"troupe/(core/device\.hpp|gpu/api\.h|gpu/(kernels|cudnn)/\w+\.hpp)$"

MAX_LINES = 600
SOURCES = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def owns(owner, path):
    """Whether `path`, or what it tests or measures, begins with `owner`."""
    return path.startswith(owner) or re.sub("^(tests|bench)/", "", path).startswith(owner)


def violation(path, quote, header):
    """The rule that including `header` from the file `path` breaks, or None."""
    folder, suffix = path.split("/")[0], pathlib.PurePath(path).suffix
    if header.startswith("troupe/"):
        target = header.split("/")[1]
        if target not in MAY_INCLUDE[folder] | {folder}:
            return f"{folder}/ may not include {target}/"
        if target == folder and folder in INSIDE:
            inside, target = path.split("/")[1], header.split("/")[2]
            if inside not in INSIDE[folder]:
                return f"{folder}/{inside} is no sub-folder of {folder}/ that the table of sub-folders has"
            if target not in INSIDE[folder][inside] | {inside}:
                return f"{folder}/{inside} may not include {folder}/{target}"
        # detail/ is not installed, so headers that are must do without it.
        if suffix in {".hpp", ".h"} and folder in EVERYTHING and "/detail/" in header and "/detail/" not in path:
            return "a public header may not include a private one"
        if suffix in {".cu", ".cuh"} and not re.match(DEVICE_CODE_MAY_INCLUDE, header):
            return "device code includes only CUDA, the standard library, core/device.hpp and the plug-ins' own headers"
    elif quote == '"' and not header.endswith(".capnp.h"):
        return "Troupe's headers are included as <troupe/folder/file.hpp>"
    for pattern, owners in OWNERS:
        if re.match(pattern, header):
            return None if any(owns(owner, path) for owner in owners) else f"only {', '.join(owners)} may include it"
    return None


def check(root):
    """All violations in the tree at `root`, as lines `file:line: text`."""
    found = []
    for folder in sorted(MAY_INCLUDE):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES:
                continue
            path = file.relative_to(root).as_posix()
            lines = file.read_text().splitlines()
            if len(lines) > MAX_LINES:
                found.append(f"{path}:{MAX_LINES + 1}: {len(lines)} lines, at most {MAX_LINES} are allowed: split the file")
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                rule = match and violation(path, *match.groups())
                if rule:
                    found.append(f"{path}:{number}: includes {match[2]}: {rule}")
    return found


GOOD = {
    "core/log.cpp": "#include <spdlog/spdlog.h>\n#include <troupe/core/log.hpp>",
    "core/digest.cpp": "#include <openssl/evp.h>",
    "messages/frame.cpp": '#include <capnp/message.h>\n#include "trajectory.capnp.h"\n#include <troupe/core/error.hpp>',
    "learner/replicate/replica.hpp": "#include <troupe/collectives/communicator.hpp>",
    "gpu/plugin.cu": "#include <cuda_runtime.h>\n#include <troupe/gpu/api.h>",
    "gpu/kernels/image.cu": "#include <troupe/gpu/kernels/launch.hpp>",
    "collectives/nccl_communicator.cpp": "#include <nccl.h>",
    "actors/system.cpp": "#include <caf/all.hpp>\n#include <troupe/learner/replicate/replica.hpp>",
    "actors/roles/good_role.cpp": "#include <troupe/actors/runtime/role.hpp>",
    "tests/actors/system_test.cpp": "#include <caf/test/dsl.hpp>\n#include <gtest/gtest.h>",
    "bench/envs/envs_bench.cpp": "#include <benchmark/benchmark.h>\n#include <mujoco/mujoco.h>",
    "envs/long.cpp": "\n" * MAX_LINES,
    "replay/detail/rows.hpp": "#include <troupe/replay/detail/row.hpp>",
}
BAD = {
    "core/error.cpp": "#include <spdlog/spdlog.h>",  # only core/log.cpp
    "core/clock.hpp": "#include <troupe/actors/system.hpp>",  # upwards
    "core/tls.cpp": "#include <openssl/ssl.h>",  # digests only
    "replay/table.cpp": "#include <troupe/envs/environment.hpp>",  # sideways
    "learner/step.hpp": "#include <caf/all.hpp>",
    "learner/graph/graph.cpp": "#include <cuda_runtime.h>",
    "gpu/bad.cu": "#include <troupe/learner/graph/graph.hpp>",
    "pjrt/bad.cpp": "#include <troupe/gpu/gpu.hpp>",  # sideways
    "gpu/kernels/host.cu": "#include <troupe/gpu/cuda_plugin.hpp>",
    "collectives/ring.cpp": "#include <sys/socket.h>",
    "collectives/gpu.cpp": "  #  include <nccl.h>",
    "run/node.cpp": "#include <capnp/message.h>",
    "apps/main.cpp": '#include "run.hpp"',
    "actors/runtime/role.hpp": "#include <troupe/actors/control/runtime.hpp>",  # upwards, within a folder
    "learner/loose.cpp": "#include <troupe/learner/graph/graph.hpp>",  # in no sub-folder
    "algorithms/sac/step.cpp": "#include <troupe/algorithms/d4pg/options.hpp>",  # sideways, within a folder
    "replay/rows.hpp": "#include <troupe/replay/detail/row.hpp>",  # private
    "examples/hello.cpp": "#include <caf/all.hpp>",
    "tests/replay/table_test.cpp": "#include <mujoco/mujoco.h>",
    "envs/too_long.cpp": "\n" * (MAX_LINES + 1),
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in (GOOD | BAD).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        found = check(root)
    blamed = sorted(line.split(":")[0] for line in found)
    if blamed != sorted(BAD):
        print("\n".join(found))
        sys.exit(f"self-test: blamed {blamed}, expected {sorted(BAD)}")
    print(f"self-test: all {len(BAD)} bad files found, none of the {len(GOOD)} good ones blamed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        sys.exit(__doc__)
    found = check(pathlib.Path(__file__).resolve().parent.parent)
    print("\n".join(found) or "layers: no violation")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
