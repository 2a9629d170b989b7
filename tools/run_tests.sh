#!/usr/bin/env bash
# Runs the tests of build/release. The last line reads `N passed, N failed`, and `, N skipped` where some were skipped;
# the exit status is 0 only if none failed and some passed. Arguments go to ctest, e.g. `./troupe test -R replay`.
set -euo pipefail
build=$(dirname "$(dirname "$(readlink -f "$0")")")/build/release
report=$build/tests.xml
rm -f "$report"

status=0
ctest --test-dir "$build" --parallel 2 --output-on-failure --output-junit "$report" "$@" || status=$?
[ -e "$report" ] || { echo "0 passed, 1 failed"; exit 1; }

count() { grep -c "<testcase.*status=\"$1\"" "$report" || true; }
# ctest marks a test whose program is missing as "notrun" too; that one is a failure, not a skip.
unable=$(grep -c '<skipped message="Unable' "$report" || true)
passed=$(count run) failed=$(($(count fail) + unable)) skipped=$(($(count notrun) + $(count disabled) - unable))
summary="$passed passed, $failed failed"
((skipped == 0)) || summary+=", $skipped skipped"
echo "$summary"
((failed == 0 && passed > 0 && status == 0))
