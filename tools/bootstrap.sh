#!/usr/bin/env bash
# Installs and builds what is missing, and nothing else: when all is there it costs some 0.1 s and prints nothing.
#   tools/bootstrap.sh fetched      the Debian packages of tools/apt-packages.txt and the fetched files below
#   tools/bootstrap.sh configured   also a configured build/release
#   tools/bootstrap.sh program      also the program build/release/bin/troupe, not older than its sources
#   tools/bootstrap.sh tests        also the Python environment of the tests, every test and every bench
#
# Fetched files are pinned by hash and shared by all checkouts of a user, in ${XDG_CACHE_HOME:-~/.cache}/troupe:
#   mujoco-3.17.0/      include/mujoco/*.h, libmujoco.so.3.17.0, plugin/*.so   (from the wheel on PyPI; Apache-2.0)
#   dm_control-1.0.50/  suite/*.xml, suite/common/*.xml                        (model files; Apache-2.0)
#   onednn-3.2/         include/*, lib/libdnnl.so.3: Debian's 2.6 takes twice the time with matrix tiles (Apache-2.0)
#   cudnn-frontend-1.32.0/  include/*: headers of cuDNN's front end, only where nvcc is on PATH           (Apache-2.0)
#   python/             environments for tests and rivals, see tools/python_env.sh
# Several starts at once are safe: locks keep them apart, and a folder appears by a rename when it is complete.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/troupe
build=$root/build/release
say() { echo "troupe: $*" >&2; }
die() { say "$*"; exit 1; }

# Prints the packages of the list that are absent or have another version, as apt-get takes them (NAME or NAME=VERSION*).
missing_packages() {
  awk -v goal="$goal" 'NR == FNR { if ($1 == "installed") version[$2] = $3; next }
       /^# For the tests alone/ && goal != "tests" { exit }
       /^[a-z]/ { split($1, want, "=")
                  if (!(want[1] in version) || (want[2] && index(version[want[1]], want[2]) != 1))
                    print want[1] (want[2] ? "=" want[2] "*" : "") }' \
    <(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n') "$root/tools/apt-packages.txt"
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is not Debian: install what tools/apt-packages.txt lists by hand and build with CMake (CONTRIBUTING.md)"
  local missing as_root=() log=$cache/apt.log
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing packages, neither root nor sudo: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
  # The package lists may be absent or out of date: then the first attempt fails at once, and the second has fresh ones.
  "${apt[@]}" install "${missing[@]}" >"$log" 2>&1 ||
    { "${apt[@]}" update && "${apt[@]}" install "${missing[@]}"; } >>"$log" 2>&1 ||
    die "cannot install ${missing[0]} ($((${#missing[@]} - 1)) more are missing); is there a network? log: $log"
}

# fetch_wheel TARGET PACKAGE==VERSION PLATFORM SHA256 FOLDER MEMBER...: the named members of a wheel that lie in FOLDER,
# as $cache/TARGET.
fetch_wheel() ( # a subshell, so that its trap is its own
  local target=$cache/$1 package=$2 platform=$3 sha256=$4 folder=$5 work
  [ -d "$target" ] && return
  local log=$cache/${package%%=*}.log
  say "fetching $package"
  mkdir -p "$(dirname "$target")"
  work=$(mktemp -d "$cache/.fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "$package --hash=sha256:$sha256" >"$work/requirement.txt"
  # The platform is named, so that the one pinned wheel is asked for whatever Python runs pip.
  /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 2 \
    --python-version 3.11 --platform "$platform" --require-hashes \
    -d "$work" -r "$work/requirement.txt" >"$log" 2>&1 ||
    die "cannot fetch the package $package; is there a network? log: $log"
  unzip -q "$work"/*.whl "${@:6}" -d "$work" || die "unexpected contents of the package $package"
  mv "$work/$folder" "$target"
)

fetch_files() {
  fetch_wheel mujoco-3.17.0 mujoco==3.17.0 manylinux_2_28_x86_64 \
    d66928d86a2d1b601bbaa4dc11db50214d17d5301bb8afd84721313b67ff0874 mujoco \
    'mujoco/include/*.h' 'mujoco/libmujoco.so.*' 'mujoco/plugin/*'
  fetch_wheel dm_control-1.0.50 dm_control==1.0.50 manylinux_2_28_x86_64 \
    5434e1e51ff69016867426da7df6064b18d140e4d0a628f879bbcf0e7d0a586d dm_control \
    'dm_control/suite/*.xml' # `*` matches across folders
  local data=2023.2.0.data/data # oneDNN 3.2 with GNU's OpenMP, as Intel releases it
  fetch_wheel onednn-3.2/lib onednn-cpu-gomp==2023.2.0 manylinux1_x86_64 \
    2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb "onednn_cpu_gomp-$data/lib" '*/lib/libdnnl.so.3'
  fetch_wheel onednn-3.2/include onednn-devel-cpu-gomp==2023.2.0 manylinux1_x86_64 \
    9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284 "onednn_devel_cpu_gomp-$data/include" \
    '*/include/oneapi/dnnl/*'
  command -v nvcc >/dev/null || return 0
  fetch_wheel cudnn-frontend-1.32.0/include nvidia-cudnn-frontend==1.32.0 manylinux_2_28_x86_64 \
    c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0 include 'include/*'
}

configure() {
  cmake -S "$root" --preset release -DTROUPE_MUJOCO_DIR="$cache/mujoco-3.17.0" \
    -DTROUPE_DM_CONTROL_DIR="$cache/dm_control-1.0.50" -DTROUPE_ONEDNN_DIR="$cache/onednn-3.2" \
    -DTROUPE_CUDNN_FRONTEND_DIR="$cache/cudnn-frontend-1.32.0" "$@" >"$build/configure.log" 2>&1 ||
    { cat "$build/configure.log" >&2; die "configuring failed (log: $build/configure.log)"; }
}

# Folders whose files make up the program; a build of it is up to date when none of them is newer than its stamp.
program_is_current() {
  [ -x "$build/bin/troupe" ] && [ -e "$build/.program" ] &&
    [ -z "$(cd "$root" && find CMakeLists.txt CMakePresets.json cmake core messages transport envs data replay collectives \
      learner actors apps -newer "$build/.program" -print -quit)" ]
}

build_program() {
  touch "$build/.building"
  [ -e "$build/build.ninja" ] || { say "configuring"; configure; }
  say "building the program"
  if [ -t 2 ]; then
    cmake --build "$build" --target troupe >&2 || die "the build failed" # ninja shows its progress on one line
  else
    cmake --build "$build" --target troupe >"$build/build.log" 2>&1 ||
      { grep -A12 -E 'error|FAILED' "$build/build.log" | head -60 >&2; die "the build failed (log: $build/build.log)"; }
  fi
  mv "$build/.building" "$build/.program" # as old as the start of the build: edits made meanwhile are newer
}

goal=${1:?usage: tools/bootstrap.sh fetched|configured|program|tests}
mkdir -p "$cache"
(
  flock 9
  install_packages
  fetch_files
) 9>"$cache/bootstrap.lock"
[ "$goal" = fetched ] && exit

mkdir -p "$build"
exec 9>"$build/.lock"
flock 9
case $goal in
  configured) [ -e "$build/build.ninja" ] || configure ;;
  program) program_is_current || build_program ;;
  tests)
    python=$("$root/tools/python_env.sh" test)
    configure -DTROUPE_TEST_PYTHON="$python"
    say "building everything"
    cmake --build "$build"
    ;;
  *) die "bootstrap: unknown goal '$goal'" ;;
esac
