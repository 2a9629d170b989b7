#!/usr/bin/env bash
# Builds the wheel, installs it into a folder of its own, and runs a script there with the Python that has what tests and
# benches of it need, or with that of another environment of tools/python. Ends with 77 where that Python cannot be made
# (no network).
#   python/with_wheel.sh [--env NAME] SCRIPT [ARGUMENT...]     sees $TROUPE_WHEEL, and $TROUPE_SITE, where it was installed
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
usage="usage: python/with_wheel.sh [--env NAME] SCRIPT [ARGUMENT...]"
env=wheel
if [ "${1:-}" = --env ]; then
  env=${2:?$usage}
  shift 2
fi
script=$(readlink -f "${1:?$usage}")
shift
python=$("$root/tools/python_env.sh" wheel) && runner=$("$root/tools/python_env.sh" "$env") || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TROUPE_WHEEL=$("$root/python/build_wheel.sh" "$folder/wheel")
export TROUPE_WHEEL TROUPE_SITE=$folder/site PYTHONPATH=$folder/site
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$TROUPE_SITE" "$TROUPE_WHEEL"
# What the wheel needs of other environments they may lack.
[ "$env" = wheel ] || cp -r "$("$python" -c 'import nanobind_backend; print(nanobind_backend.__path__[0])')" "$TROUPE_SITE"
unset TROUPE_DM_CONTROL_DIR # the wheel has its own
cd "$folder"
"$runner" -B "$script" "$@"
