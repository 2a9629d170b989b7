#!/usr/bin/env bash
# Fuzzes what reads bytes from outside, with libFuzzer and the address and undefined-behaviour sanitizers:
#   tools/fuzz.sh SECONDS [TARGET...]    builds and runs the targets of tests/fuzz, each for SECONDS; all by default
#   tools/fuzz.sh --seeds [TARGET...]    writes their first inputs anew, tests/fuzz/corpus/TARGET
# One line a target: executions, edges covered, inputs kept. The exit status is 1 when a target found something; the
# input is then in build/fuzz/findings, to be run again by `build/fuzz/bin/TARGET_fuzz INPUT`. New inputs are kept in
# build/fuzz/corpus, where the next run goes on. Exit status 77: no Clang, which is 45 MB to fetch and 260 to keep,
# and so not among tools/apt-packages.txt.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$root/build/fuzz
# An input may be 4 KiB long. What parses it may then take 5 s, 64 MiB at once and 1 GiB with all that the sanitizers
# and the fuzzer itself hold: who believes a length that is only claimed does not get by.
limits=(-max_len=4096 -timeout=5 -malloc_limit_mb=64 -rss_limit_mb=1024)
die() { echo "fuzz: $*" >&2; exit 2; }

mode=${1:-}
[[ $mode == --seeds || $mode =~ ^[1-9][0-9]*$ ]] || die "usage: tools/fuzz.sh SECONDS|--seeds [TARGET...]"
targets=("${@:2}")
if ((${#targets[@]} == 0)); then
  for file in "$root"/tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$file" _fuzz.cpp)"); done
fi
for target in "${targets[@]}"; do
  [ -e "$root/tests/fuzz/${target}_fuzz.cpp" ] || die "there is no target $target (tests/fuzz)"
done

install="apt-get install --no-install-recommends clang libclang-rt-14-dev"
command -v clang++ >/dev/null || { echo "fuzz: skipped, there is no clang++: $install"; exit 77; }
[ -e "$(clang++ -print-resource-dir)/lib/linux/libclang_rt.fuzzer-$(uname -m).a" ] ||
  { echo "fuzz: skipped, clang++ has no libFuzzer: $install"; exit 77; }

mkdir -p "$build/findings"
(
  flock 9
  [ -e "$build/build.ninja" ] || cmake -S "$root" --preset fuzz >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log" >&2; die "configuring failed"; }
  cmake --build "$build" --parallel "${TROUPE_FUZZ_JOBS:-$(nproc)}" --target "${targets[@]/%/_fuzz}" >"$build/build.log" 2>&1 ||
    { grep -A8 -E 'error|FAILED' "$build/build.log" | head -60 >&2; die "the build failed (log: $build/build.log)"; }
) 9>"$build/.lock"

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

if [[ $mode == --seeds ]]; then
  for target in "${targets[@]}"; do
    corpus=$root/tests/fuzz/corpus/$target
    mkdir -p "$corpus" && rm -f "$corpus"/[0-9]* # what was found once has a name and stays
    "$build/bin/${target}_fuzz" --seeds "$corpus"
    echo "$target: $(find "$corpus" -type f | wc -l) seeds, $(du -bs "$corpus" | cut -f1) bytes"
  done
  exit
fi

found=0
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target log=$build/$target.log
  mkdir -p "$corpus"
  status=0
  "$build/bin/${target}_fuzz" "${limits[@]}" -max_total_time="$mode" -print_final_stats=1 -reload=0 \
    -artifact_prefix="$build/findings/$target-" "$corpus" "$root/tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
  result=ok
  if ((status != 0)); then
    found=1
    result="FOUND $(sed -nE 's/.*(check failed: |ERROR: |runtime error: )/\1/p' "$log" | head -1 | cut -c1-150) (log: $log)"
  fi
  printf '%-16s %10s executions %6s edges %5s inputs  %s\n' "$target" "${executions:-?}" "${edges:-?}" \
    "$(find "$corpus" -type f | wc -l)" "$result"
done
exit $found
