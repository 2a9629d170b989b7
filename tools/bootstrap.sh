#!/usr/bin/env bash
# Installs and builds what is missing, and nothing else: when all is there it costs some 0.1 s and prints nothing.
#   tools/bootstrap.sh packages     all Debian packages of tools/apt-packages.txt: what an administrator does for all users
#   tools/bootstrap.sh fetched      the Debian packages of tools/apt-packages.txt and the fetched files below
#   tools/bootstrap.sh configured   also a configured build/release
#   tools/bootstrap.sh program      also the program build/release/bin/troupe, not older than its sources
#   tools/bootstrap.sh tests        also the Python environment of the tests, every test and every bench
#   tools/bootstrap.sh pjrt cpu|cuda|tpu only a plug-in with PJRT's C API, which nothing else fetches; prints its path
#
# Fetched files are pinned by hash and shared by all checkouts of a user, in ${XDG_CACHE_HOME:-~/.cache}/troupe:
#   mujoco-3.17.0/      include/mujoco/*.h, libmujoco.so.3.17.0, plugin/*.so   (from the wheel on PyPI; Apache-2.0)
#   dm_control-1.0.50/  suite/*.xml, suite/common/*.xml, suite/dog_assets/*    (model files and the dog's meshes; Apache-2.0)
#   onednn-3.2/         include/*, lib/libdnnl.so.3: Debian's 2.6 takes twice the time with matrix tiles (Apache-2.0);
#                       on aarch64 there is none, and Eigen multiplies
#   cudnn-frontend-1.32.0/  include/*: headers of cuDNN's front end, only where nvcc is on PATH           (Apache-2.0)
#   uplot-1.6.31/       uplot.iife.min.js, uplot.min.css: what draws the charts of the page                          (MIT)
#   pjrt-cpu-0.11.2/    pjrt_c_api_cpu_plugin.so, XLA for the processor: for the tests of pjrt, only x86-64   (Apache-2.0)
#   pjrt-cuda-0.10.2/   xla_cuda_plugin.so, XLA for NVIDIA's GPUs; compiling needs the CUDA toolkit's ptxas     (Apache-2.0)
#   pjrt-tpu-0.0.52/    libtpu.so, XLA for TPUs, only x86-64; its licence is Google Cloud's terms, so it comes from the
#                       user's package index and must not be handed on
#   python/             environments for tests and rivals, see tools/python_env.sh
# Several starts at once are safe: locks keep them apart, and a folder appears by a rename when it is complete. What takes
# long says every 15 s how far it is (tools/progress.sh).
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}" # absent in some services
cache=${XDG_CACHE_HOME:-$HOME/.cache}/troupe
build=$root/build/release
. "$root/tools/progress.sh"
say() { echo "troupe: $*" >&2; }
die() { say "$*"; exit 1; }

# own LOCK HINT: makes the folder of a lock, and ends with one clear line where this user cannot write there.
own() {
  local path=${1%/*}
  mkdir -p "$path" 2>/dev/null || true
  if [ -e "$1" ]; then path=$1; fi
  [ -w "$path" ] ||
    die "$(id -un 2>/dev/null || id -u) cannot write $path$(stat -c ', which belongs to %U' "$path" 2>/dev/null): $2"
}

# with_lock LOCK COMMAND...: one at a time.
with_lock() {
  exec 9>"$1"
  flock -n 9 || { say "waiting for another ./troupe, which is at work in ${1%/*}"; flock 9; }
  "${@:2}"
  exec 9>&-
}

# Prints the packages of the list that are absent or have another version, as apt-get takes them (NAME or NAME=VERSION*).
missing_packages() {
  awk -v goal="$goal" 'NR == FNR { if ($1 == "installed") version[$2] = $3; next }
       /^# For the tests alone/ && goal != "tests" && goal != "packages" { exit }
       /^[a-z]/ { split($1, want, "=")
                  if (!(want[1] in version) || (want[2] && index(version[want[1]], want[2]) != 1))
                    print want[1] (want[2] ? "=" want[2] "*" : "") }' \
    <(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n') "$root/tools/apt-packages.txt"
}

# Without a terminal nobody can type a password.
may_sudo() { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; }

install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is not Debian: install what tools/apt-packages.txt lists by hand and build with CMake (CONTRIBUTING.md)"
  local missing as_root=() log=$cache/apt.log
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! may_sudo; then
      # What the tests alone want is no reason not to build: tests without it are skipped by name.
      local wanted=$goal all=("${missing[@]}")
      goal=program
      mapfile -t missing < <(missing_packages)
      goal=$wanted
      ((${#missing[@]} == 0)) || die "Debian packages are missing, and this user is neither root nor may use sudo;" \
        "an administrator installs them once for all users: apt-get install ${all[*]}"
      say "tests that need these Debian packages are skipped, as this user cannot install them: ${all[*]}"
      return 0
    fi
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=1 -o Acquire::http::Timeout=20)
  # The package lists may be absent or out of date: then the first attempt fails at once, and the second has fresh ones.
  fetch_and_install() {
    "${apt[@]}" install "${missing[@]}" || { "${apt[@]}" update && "${apt[@]}" install "${missing[@]}"; }
  }
  with_progress "installing Debian packages" "$log" fetch_and_install ||
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
  with_progress "fetching $package" "$log" \
    /usr/bin/python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --retries 2 \
    --python-version 3.11 --platform "$platform" --require-hashes -d "$work" -r "$work/requirement.txt" ||
    die "cannot fetch the package $package; is there a network? log: $log"
  unzip -q "$work"/*.whl "${@:6}" -d "$work" || die "unexpected contents of the package $package"
  mv "$work/$folder" "$target"
)

fetch_files() {
  local machine mujoco_sha256
  machine=$(uname -m)
  case $machine in
    x86_64) mujoco_sha256=d66928d86a2d1b601bbaa4dc11db50214d17d5301bb8afd84721313b67ff0874 ;;
    aarch64) mujoco_sha256=91a70ed9979c383ff1f5c03f25cc2e1280a8254c1a8e558d5dd7f4184f01efc9 ;;
    *) die "Troupe is for x86-64 and aarch64, and this machine is $machine: there is no MuJoCo for it" ;;
  esac
  fetch_wheel mujoco-3.17.0 mujoco==3.17.0 "manylinux_2_28_$machine" "$mujoco_sha256" mujoco \
    'mujoco/include/*.h' 'mujoco/libmujoco.so.*' 'mujoco/plugin/*'
  local suite=(dm_control==1.0.50 any 5434e1e51ff69016867426da7df6064b18d140e4d0a628f879bbcf0e7d0a586d dm_control)
  fetch_wheel dm_control-1.0.50 "${suite[@]}" 'dm_control/suite/*.xml' 'dm_control/suite/dog_assets/*' # `*` matches across folders
  # Caches of before the dog have no meshes.
  fetch_wheel dm_control-1.0.50/suite/dog_assets "${suite[@]}/suite/dog_assets" 'dm_control/suite/dog_assets/*'
  fetch_wheel uplot-1.6.31 youplot==1.0.0 any 31fe55753a3a073ba1bf2979708443d87d11bb9e0250a0c1ab23118e1e70fb94 \
    youplot/vendor 'youplot/vendor/*.js' 'youplot/vendor/*.css'
  [ "$machine" = x86_64 ] || return 0 # nobody releases the rest for others
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

# fetch_pjrt cpu|cuda|tpu: by these versions, whose names and functions pjrt/ was tried with.
fetch_pjrt() {
  [ "$(uname -m)" = x86_64 ] || die "PJRT's plug-ins are released for x86-64, and this machine is $(uname -m)"
  case $1 in
    cpu) fetch_wheel pjrt-cpu-0.11.2 lammps-jax-pjrt-cpu==0.11.2 manylinux_2_27_x86_64 \
      1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1 lammps_jax_pjrt_cpu 'lammps_jax_pjrt_cpu/*.so' ;;
    cuda) fetch_wheel pjrt-cuda-0.10.2 jax-cuda13-pjrt==0.10.2 manylinux_2_27_x86_64 \
      a97e9cabe0e21d8dbcc70bd909ca1c34cd546d3ce2d94b4cd907a8d4f6179f6a jax_plugins/xla_cuda13 'jax_plugins/xla_cuda13/*.so' ;;
    tpu) fetch_wheel pjrt-tpu-0.0.52 libtpu==0.0.52 manylinux_2_31_x86_64 \
      f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140 libtpu libtpu/libtpu.so libtpu/LICENSE ;;
    *) die "bootstrap: unknown PJRT plug-in '$1', expected cpu, cuda or tpu" ;;
  esac
}

configure() {
  cmake -S "$root" --preset release -DTROUPE_MUJOCO_DIR="$cache/mujoco-3.17.0" \
    -DTROUPE_DM_CONTROL_DIR="$cache/dm_control-1.0.50" -DTROUPE_ONEDNN_DIR="$cache/onednn-3.2" \
    -DTROUPE_CUDNN_FRONTEND_DIR="$cache/cudnn-frontend-1.32.0" -DTROUPE_UPLOT_DIR="$cache/uplot-1.6.31" "$@" >"$build/configure.log" 2>&1 ||
    { grep -A12 '^CMake Error' "$build/configure.log" | head -40 >&2; die "configuring failed (log: $build/configure.log)"; }
}

# A build of the program is up to date when nothing that makes it up is newer than its stamp.
program_is_current() {
  local folders
  mapfile -t folders < <(sed -n 's/^add_subdirectory(\([a-z_]*\)).*/\1/p' "$root/CMakeLists.txt" | grep -vx -e tests -e bench)
  [ -x "$build/bin/troupe" ] && [ -e "$build/.program" ] &&
    [ -z "$(cd "$root" && find CMakeLists.txt CMakePresets.json cmake "${folders[@]}" -newer "$build/.program" -print -quit)" ]
}

# build WHAT ARGUMENT...: of `cmake --build`.
build() {
  say "building $1"
  with_progress "building $1" "$build/build.log" cmake --build "$build" "${@:2}" ||
    { first_error "$build/build.log" >&2; die "building $1 failed (log: $build/build.log)"; }
}

build_program() {
  touch "$build/.building"
  [ -e "$build/build.ninja" ] || { say "configuring"; configure; }
  build "the program" --target troupe
  mv "$build/.building" "$build/.program" # as old as the start of the build: edits made meanwhile are newer
}

build_tests() {
  local python
  python=$("$root/tools/python_env.sh" test)
  [ -e "$build/build.ninja" ] || say "configuring"
  configure -DTROUPE_TEST_PYTHON="$python"
  build everything
}

fetch() {
  install_packages
  [ "$goal" = packages ] || fetch_files
}

goal=${1:?usage: tools/bootstrap.sh packages|fetched|configured|program|tests|pjrt}
case $goal in packages | fetched | configured | program | tests | pjrt) ;; *) die "bootstrap: unknown goal '$goal'" ;; esac
own "$cache/bootstrap.lock" "set XDG_CACHE_HOME to a folder of your own, or chown it if ./troupe was run there with sudo"
if [ "$goal" = pjrt ]; then
  plugin=${2:?usage: tools/bootstrap.sh pjrt cpu|cuda|tpu}
  with_lock "$cache/bootstrap.lock" eval 'install_packages >&2; fetch_pjrt "$plugin"'
  echo "$cache/pjrt-$plugin"-*/*.so
  exit
fi
with_lock "$cache/bootstrap.lock" fetch
case $goal in packages | fetched) exit ;; esac
own "$build/.lock" "build in a clone of your own, or chown it if ./troupe was run there with sudo"
case $goal in
  configured) [ -e "$build/build.ninja" ] || with_lock "$build/.lock" configure ;;
  program) with_lock "$build/.lock" eval 'program_is_current || build_program' ;;
  tests) with_lock "$build/.lock" build_tests ;;
esac
