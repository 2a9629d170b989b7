#!/usr/bin/env bash
# Runs the tests of build/release. The last line reads `N passed, N failed`, and `, N skipped` where some were skipped;
# the lines before it say why those were. The exit status is 0 only if none failed and some passed. Arguments go to ctest,
# e.g. `./troupe test -R replay`.
# Some tests judge times of real processes, on machines that others use too: one that fails is run once more, and who
# passed only then is named before the last line.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$root/build/release
report=$build/tests.xml
log=$build/tests.log
rm -f "$report"

status=0
ctest --test-dir "$build" --parallel 2 --repeat until-pass:2 --output-on-failure --output-junit "$report" "$@" |
  tee "$log" || status=$?
[ -e "$report" ] || { echo "0 passed, 1 failed"; exit 1; }
/usr/bin/python3 -B "$root/tools/test_report.py" "$report" "$log" || status=1
exit "$status"
