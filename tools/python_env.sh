#!/usr/bin/env bash
# Prints the Python interpreter of the environment NAME; makes the environment first where it is missing.
#   tools/python_env.sh NAME          NAME is a file tools/python/NAME.txt: exact versions with hashes
#   tools/python_env.sh --find NAME   makes nothing; prints nothing where the environment is missing
# Only tests and the rivals of the benches use Python. An environment lives in the user's cache under a name that holds
# the hash of its file, so a changed file makes a new one and checkouts share them. Virtual environments cannot be
# renamed (their scripts hold the path), so a stamp written last says that one is complete; a lock keeps two makers apart.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/progress.sh"
die() { echo "python_env: $*" >&2; exit 1; }

only_find=
if [ "${1:-}" = --find ]; then only_find=yes && shift; fi
name=${1:?usage: tools/python_env.sh [--find] NAME}
requirements=$(dirname "$(readlink -f "$0")")/python/$name.txt
[ -r "$requirements" ] || die "no environment '$name'; there are: $(cd "${requirements%/*}" && echo *.txt | sed 's/\.txt//g')"
python=/usr/bin/python3 # Debian's: the pinned wheels are for its version
hash=$(sha256sum "$requirements" | cut -c1-12)
root=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/python
env=$root/$name-$hash

if [ ! -e "$env/.complete" ]; then
  [ -z "$only_find" ] || exit 0
  mkdir -p "$root"
  exec 9>"$env.lock"
  flock 9
  if [ ! -e "$env/.complete" ]; then
    echo "python_env: making '$name' ($(grep -c == "$requirements") packages) in $env" >&2
    rm -rf "$env"
    "$python" -m venv "$env" >&2 || die "cannot make '$name': is the package python3-venv installed?"
    # Hashes pin what is fetched, --no-deps says that the file is complete.
    if ! with_progress "making the Python environment '$name'" "$env.log" "$env/bin/python" -m pip install --quiet \
      --disable-pip-version-check --no-deps --only-binary :all: --require-hashes --retries 2 -r "$requirements"; then
      package=$(sed -n 's/^ERROR: No matching distribution found for \([^ ]*\).*/\1/p' "$env.log")
      die "cannot make the Python environment '$name': package ${package:-?}; is there a network? log: $env.log"
    fi
    touch "$env/.complete"
  fi
  exec 9>&-
fi
echo "$env/bin/python"
