#!/usr/bin/env python3
"""What a run of ctest came to, for tools/run_tests.sh: why tests were skipped, one line a reason (ctest has named them),
which passed only at the second try, and last `N passed, N failed[, N skipped]`.

    test_report.py REPORT.xml LOG     exit status 0 if none failed and some passed
"""

import collections
import re
import sys
import xml.etree.ElementTree

# Our scripts say "SKIPPED NAME: REASON"; GoogleTest says "FILE:LINE: Skipped" and the reason on the next line.
REASON = re.compile(r"^SKIPPED [^:\n]+: (.+)$|^\S+:\d+: Skipped\n([^\[\n].*)$", re.MULTILINE)
SECOND_TRY = re.compile(r"Test *#\d+: (\S+) .*\*\*\*(?:Failed|Timeout|Exception)")


def outcome(case):
    """"passed", "failed" or "skipped"; a test whose program is missing counts as failed, though ctest says "notrun"."""
    status, skipped = case.get("status"), case.find("skipped")
    if status == "run":
        return "passed"
    if status == "fail" or skipped is not None and skipped.get("message", "").startswith("Unable"):
        return "failed"
    return "skipped"


def reason(case):
    found = REASON.search(case.findtext("system-out") or "")
    if found:
        return (found[1] or found[2]).strip()
    return "disabled" if case.get("status") == "disabled" else "no reason given"


def group(name):
    """Tests of one script or suite are one item of a list."""
    parts = name.split(".")
    return ".".join(parts[:max(1, min(2, len(parts) - 1))])


def brief(names):
    groups = collections.defaultdict(list)
    for name in names:
        groups[group(name)].append(name)
    return ", ".join(f"{prefix}.* ({len(some)})" if len(some) > 1 else some[0] for prefix, some in groups.items())


def report(cases, log):
    """The lines, and whether all is well."""
    names = collections.defaultdict(list)
    reasons = collections.defaultdict(list)
    for case in cases:
        kind = outcome(case)
        names[kind].append(case.get("name"))
        if kind == "skipped":
            reasons[reason(case)].append(case.get("name"))
    lines = [f"skipped, {why}: {brief(some)}" for why, some in sorted(reasons.items(), key=lambda one: -len(one[1]))]
    lines += [f"passed at the second try: {name}" for name in sorted(set(SECOND_TRY.findall(log)) & set(names["passed"]))]
    passed, failed, skipped = (len(names[kind]) for kind in ("passed", "failed", "skipped"))
    lines.append(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return lines, failed == 0 and passed > 0


def main():
    cases = xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
    with open(sys.argv[2], encoding="utf-8", errors="replace") as log:
        lines, good = report(cases, log.read())
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
