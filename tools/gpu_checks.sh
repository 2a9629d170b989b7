#!/usr/bin/env bash
# All that only a machine with a GPU can show, in one go: does it compute what the processor does, does NVIDIA's
# compute-sanitizer find anything, how fast is it beside its rivals. Ends with a table of what passed.
#   tools/gpu_checks.sh [--no-bench] [--repeats N] [FOLDER]
#       builds what is needed (unless there is no build.ninja: then what lies in build/release is used as it is), runs the
#       checks one after the other, whatever fails, and keeps their output in FOLDER (build/release/gpu_checks). The
#       reports of the benches become bench/results/h200.md (or $RESULTS).
#   tools/gpu_checks.sh pack ARCHIVE.tar.xz
#       packs the built programs, plug-ins and all libraries that they need but CUDA's and glibc's, with the benches'
#       scripts, for a GPU machine that cannot build Troupe. Unpack it there, and start tools/gpu_checks.sh in it.
#   tools/gpu_checks.sh run COMMAND...
#       runs one command of a packed build by hand: with the libraries and plug-ins found as the checks find them.
#
# CUDA's own libraries come from the toolkit, or from the wheels beside PyTorch. Rivals run in the environment
# tools/python/gpu.txt; $TROUPE_RIVALS_PYTHON names another interpreter, and a rival that it lacks is left out by name:
# WITHOUT="torchrl jax_cpprb torch_cpprb".
set -uo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$root/build/release
bin=$build/bin
programs=(troupe learner_gpu_bench pixels_gpu_bench replay_gpu_bench sngan_bench resnet_bench pjrt_bench agents_bench)
tests=(cuda_kernels_test replay_kernels_test cuda_program_test hello_op)
targets=("${programs[@]}" "${tests[@]}")
plugins=(troupe_cuda troupe_cudnn troupe_cuda_emulated troupe_cudnn_emulated hello_op_cuda hello_op_cuda_emulated)
say() { echo "gpu_checks: $*" >&2; }
die() { say "$*"; exit 1; }

build_targets() {
  [ -e "$build/build.ninja" ] || return 0
  say "building"
  cmake --build "$build" --target "${targets[@]}" "${plugins[@]}" >"$build/gpu_checks.log" 2>&1 ||
    die "the build failed; log: $build/gpu_checks.log"
}

# Names of shared libraries that only a machine with a GPU should bring, or that belong to its system.
left_to_the_machine='/(ld-linux[-.a-z0-9_]*|lib(c|m|mvec|dl|rt|pthread|resolv|stdc\+\+|gcc_s)|lib(cublas|cudnn|nvrtc|nccl|cuda)[-.a-zA-Z0-9_]*)\.so'

pack() {
  local archive=${1:?usage: tools/gpu_checks.sh pack ARCHIVE.tar.xz} work target
  build_targets
  work=$(mktemp -d)
  trap "rm -rf '$work'" EXIT # now, as it is gone when the trap runs
  local tree=$work/troupe
  mkdir -p "$tree/build/release/bin" "$tree/build/release/programs" "$tree/build/release/lib/needed"
  for target in "${targets[@]}"; do
    [ -x "$bin/$target" ] || die "there is no $bin/$target"
    cp "$bin/$target" "$tree/build/release/programs/"
  done
  cp -r "$build"/lib/*.so "$bin"/*.so "$build/lib/emulated" "$tree/build/release/lib/"
  find "$tree" -type f -exec strip --strip-unneeded {} +
  # Programs find their libraries by a script of their name: the rivals' Python must not find them.
  for target in "${targets[@]}"; do
    cat >"$tree/build/release/bin/$target" <<'SCRIPT'
#!/bin/sh
build=$(dirname "$(dirname "$(readlink -f "$0")")")
export LD_LIBRARY_PATH="$build/lib/needed:$TROUPE_CUDA_FOLDERS:$LD_LIBRARY_PATH"
exec "$build/programs/$(basename "$0")" "$@"
SCRIPT
    chmod +x "$tree/build/release/bin/$target"
  done
  # Of the libraries of the processor's side; the plug-ins need CUDA's alone.
  for target in "${targets[@]}"; do ldd "$bin/$target"; done | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u |
    grep -Ev "$left_to_the_machine|^$build/" | xargs -r cp -L -t "$tree/build/release/lib/needed"
  mkdir -p "$tree/tools" "$tree/apps" "$tree/learner"
  cp -r "$root/bench" "$tree/"
  cp -r "$root/learner/ops" "$tree/learner/" # a test of the kernels looks for every operation there
  cp -r "$root/apps/configs" "$tree/apps/"
  cp -rL "$build/share" "$tree/build/release/"
  cp -r "$root/tools/." "$tree/tools/"
  grep '^CMAKE_HOME_DIRECTORY' "$build/CMakeCache.txt" | cut -d= -f2 >"$tree/build/release/built_at"
  tar -C "$work" -caf "$archive" troupe
  say "$archive: $(du -h "$archive" | cut -f1)"
}

# Tests and environments know the tree by its path on the machine that built it: it must be there here too.
check_places() {
  [ -e "$build/built_at" ] || return 0
  local at
  at=$(cat "$build/built_at")
  [ "$(readlink -f "$at")" = "$root" ] ||
    die "this was built elsewhere; first: mkdir -p $(dirname "$at") && ln -sfn $root $at"
}

# A folder with a library, from the places where it may be.
folder_of() {
  local found
  found=$(ldconfig -p | sed -n "s/.*$1.* => //p" | head -1)
  [ -n "$found" ] || found=$(ls -d /usr/local/cuda*/lib64/"$1" /usr/local/cuda*/targets/*/lib/"$1" 2>/dev/null | head -1)
  [ -n "$found" ] || found=$("$python" - "$1" 2>/dev/null <<'PYTHON'
import pathlib, sys, sysconfig
for place in map(pathlib.Path, {sysconfig.get_paths()["purelib"], *sys.path}):
    for found in sorted(place.glob(f"nvidia/*/lib/{sys.argv[1]}")):
        print(found); raise SystemExit
PYTHON
  )
  [ -z "$found" ] || dirname "$found"
}

# Where a packed build finds CUDA's libraries; one that was made here knows it.
find_libraries() {
  local library folder
  export TROUPE_PLUGIN_PATH=$build/lib TROUPE_CUDA_FOLDERS=
  [ -d "$build/programs" ] || return 0
  for library in libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libnccl.so.2; do
    folder=$(folder_of "$library")
    if [ -n "$folder" ]; then TROUPE_CUDA_FOLDERS+=$folder:; else say "no $library is to be found here"; fi
  done
}

declare -a results=()
failed=0
# check NAME COMMAND...: its output goes to FOLDER/NAME.log.
check() {
  local name=$1 status=0 start=$SECONDS
  shift
  say "$name"
  "$@" >"$out/$name.log" 2>&1 || status=$?
  if ((status == 0)); then
    results+=("passed   $name ($((SECONDS - start)) s)")
  else
    failed=$((failed + 1))
    results+=("FAILED   $name: exit status $status, $out/$name.log: $(grep -E 'failed|FAILED|ERROR|error' "$out/$name.log" | tail -1)")
  fi
  return $status
}
skip() { results+=("skipped  $1: $2"); }

bench_of() {
  local name=$1 without=() rival
  for rival in ${WITHOUT:-}; do
    ! python3 "$root/bench/run.py" --list | grep -E "^$name " | grep -qw "$rival" || without+=(--without "$rival")
  done
  rm -f "$out/$name.json"
  check "bench_$name" python3 "$root/bench/run.py" "$name" --device cuda --rivals "${without[@]}" --json "$out/$name.json" \
    ${repeats:+--repeats "$repeats"} && return
  # What Troupe does by itself is worth having, and the report says what is missing.
  check "bench_${name}_alone" python3 "$root/bench/run.py" "$name" --device cuda --json "$out/$name.json" \
    ${repeats:+--repeats "$repeats"}
}

sanitizer() {
  local found
  found=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
  if [ -z "$found" ]; then
    skip compute-sanitizer "not here; it is in the CUDA toolkit, and in the wheel nvidia-cuda-sanitizer-api"
    return
  fi
  local tool
  for tool in memcheck racecheck; do
    check "$tool" "$found" --tool "$tool" --target-processes all --error-exitcode 9 "$bin/cuda_kernels_test"
  done
}

# An operation with kernels of its own gives what it gives on the processor.
own_operation() {
  diff <("$bin/hello_op" cpu) <("$bin/hello_op" cuda:0)
}

# Learner and replay on the GPU, from a configuration to a return.
whole_run() {
  rm -rf "$out/run"
  "$bin/troupe" train "$root/apps/configs/cartpole_swingup.toml" --run-dir "$out/run" --set learner.device=cuda:0 \
    --set replay.device=cuda:0 --set max_env_steps=150000 &&
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["final_return"]["mean"] < 700)' "$out/run/summary.json"
}

prepare() {
  check_places
  python=${TROUPE_RIVALS_PYTHON:-$("$root/tools/python_env.sh" --find gpu)}
  python=${python:-python3}
  find_libraries
  [ -e "$build/build.ninja" ] || export TROUPE_BIN_DIR=$bin
}

run_all() {
  mkdir -p "$out"
  build_targets
  prepare
  check doctor "$bin/troupe" doctor
  cat "$out/doctor.log"
  grep -q '^cuda:0 ' "$out/doctor.log" || die "there is no GPU here that Troupe can use"
  check kernels "$bin/cuda_kernels_test"
  check replay_kernels "$bin/replay_kernels_test"
  sanitizer
  check programs env TROUPE_TEST_GPU=1 "$bin/cuda_program_test"
  check own_operation own_operation
  check whole_run whole_run
  if [ -z "$no_bench" ]; then
    export TROUPE_BENCH_FILES=$out
    local name
    for name in learner pixels replay sngan resnet50 train; do bench_of "$name"; done
    # XLA on the same GPU decides which engine is the default for what.
    if compgen -G "${XDG_CACHE_HOME:-$HOME/.cache}/troupe/pjrt-cuda-*/*.so" >/dev/null ||
      [[ ${PJRT_NAMES_AND_LIBRARY_PATHS:-} == *cuda:* ]]; then
      bench_of pjrt
    else
      skip pjrt "JAX's CUDA plug-in is not here: tools/bootstrap.sh pjrt cuda fetches it"
    fi
    check report python3 "$root/bench/gpu_results.py" "$out" "${RESULTS:-$root/bench/results/h200.md}"
  fi
  printf '%s\n' "${results[@]}"
  ((failed == 0))
}

no_bench='' repeats='' out=$build/gpu_checks
case ${1:-} in
  pack) pack "${2:-}"; exit ;;
  run) shift; prepare; exec "$@" ;;
esac
while (($#)); do
  case $1 in
    --no-bench) no_bench=yes ;;
    --repeats) repeats=${2:?--repeats N}; shift ;;
    -*) die "unknown option $1; see the head of this file" ;;
    *) out=$(readlink -m "$1") ;;
  esac
  shift
done
run_all
