#!/usr/bin/env bash
# Runs a test program with kernels and oneDNN held down to an instruction set: held_down.sh sse41|avx2|avx512 PROGRAM ...
# Ends with 77 (skipped) where this processor has less than that.
set -euo pipefail
isa=${1:?usage: held_down.sh sse41|avx2|avx512 PROGRAM ...}
shift
case $isa in
  sse41) needs=sse4_1 ;;
  avx2) needs="avx2 fma" ;;
  avx512) needs="avx512f avx512bw avx512dq avx512vl" ;;
  *) echo "held_down: unknown instruction set '$isa'" >&2 && exit 1 ;;
esac
for flag in $needs; do
  if ! grep -qw "$flag" /proc/cpuinfo; then
    echo "SKIPPED ${1##*/}: this processor has no $flag, so it cannot be held down to $isa"
    exit 77
  fi
done
TROUPE_MAX_ISA=$isa exec "$@"
