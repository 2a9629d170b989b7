"""unittest for ctest: each test method is an entry of its own, so that a test that is skipped is counted by its name.

    FILE --list            names of all tests, one a line
    FILE CLASS.METHOD      runs one; exit status 77 and a line that names it and the reason when it is skipped
    FILE                   runs all of them
"""

import sys
import unittest

from harness.requirements import SKIPPED, reason_to_skip


def needs(*names):
    """Skips a test, or a class of them, where the machine does not meet the needs (requirements.py)."""
    reason = None if sys.argv[1:] == ["--list"] else reason_to_skip(names)  # names are the same everywhere
    return unittest.skipIf(reason is not None, reason)


def names(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test.id().split(".", 1)[1]


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))))
        return
    result = unittest.main(exit=False, verbosity=2).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id().split('.', 1)[1]}: {reason}")
    sys.exit(not result.wasSuccessful() or (SKIPPED if len(result.skipped) == result.testsRun > 0 else 0))
