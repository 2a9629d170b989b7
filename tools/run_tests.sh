#!/usr/bin/env bash
# Runs the tests of build/release. The last line reads `N passed, N failed`, and `, N skipped` where some were skipped;
# the exit status is 0 only if none failed and some passed. Arguments go to ctest, e.g. `./troupe test -R replay`.
# Some tests judge times of real processes, on machines that others use too: one that fails is run once more, and who
# passed only then is named before the last line.
set -euo pipefail
build=$(dirname "$(dirname "$(readlink -f "$0")")")/build/release
report=$build/tests.xml
log=$build/tests.log
rm -f "$report"

status=0
ctest --test-dir "$build" --parallel 2 --repeat until-pass:2 --output-on-failure --output-junit "$report" "$@" |
  tee "$log" || status=$?
[ -e "$report" ] || { echo "0 passed, 1 failed"; exit 1; }

count() { grep -c "<testcase.*status=\"$1\"" "$report" || true; }
# ctest marks a test whose program is missing as "notrun" too; that one is a failure, not a skip.
unable=$(grep -c '<skipped message="Unable' "$report" || true)
passed=$(count run) failed=$(($(count fail) + unable)) skipped=$(($(count notrun) + $(count disabled) - unable))
summary="$passed passed, $failed failed"
((skipped == 0)) || summary+=", $skipped skipped"
sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*\(Failed\|Timeout\|Exception\).*/\1/p' "$log" | sort -u | while read -r name; do
  if grep -F "<testcase name=\"$name\"" "$report" | grep -q 'status="run"'; then echo "passed at the second try: $name"; fi
done
echo "$summary"
((failed == 0 && passed > 0 && status == 0))
