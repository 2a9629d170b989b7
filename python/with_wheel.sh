#!/usr/bin/env bash
# Builds the wheel, installs it into a folder of its own, and runs a script there with the Python that has what tests and
# benches of it need. Ends with 77 where that Python cannot be made (no network).
#   python/with_wheel.sh SCRIPT [ARGUMENT...]     sees TROUPE_SITE, where the wheel was installed
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
script=$(readlink -f "${1:?usage: python/with_wheel.sh SCRIPT [ARGUMENT...]}")
shift
python=$("$root/tools/python_env.sh" wheel) || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wheel=$("$root/python/build_wheel.sh" "$folder/wheel")
export TROUPE_SITE=$folder/site PYTHONPATH=$folder/site
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-index --target "$TROUPE_SITE" "$wheel"
unset TROUPE_DM_CONTROL_DIR # the wheel has its own
cd "$folder"
"$python" -B "$script" "$@"
