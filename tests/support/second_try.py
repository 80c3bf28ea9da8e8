"""unittest.main() for tests that measure programs on this machine as it is: what else runs on its
processors can make a figure wrong. A test that fails gets one second try, and no other code
repeats one. Whoever needed it is named: in the file $LOCKSTEP_SECOND_TRIES, which scripts/test
prints at its end.

What a test started has ended when it has, or it fails (beside.py).

Tests that prove more than they cost belong to `scripts/test --whole`: @whole_only.
"""

import os
import sys
import time
import unittest

import beside

WHOLE = bool(os.environ.get("LOCKSTEP_WHOLE"))
whole_only = unittest.skipUnless(WHOLE, "only in scripts/test --whole (LOCKSTEP_WHOLE=1)")


class TimedResult(unittest.TextTestResult):
    """Says what each test took."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.stream.writeln(f"    {time.monotonic() - self.began:.1f} s")


def note(names):
    """For the end of scripts/test: these needed a second try."""
    if path := os.environ.get("LOCKSTEP_SECOND_TRIES"):
        with open(path, "a", encoding="utf-8") as file:
            for name in sorted(names):
                file.write(f"{os.path.basename(sys.argv[0])} {name}\n")


def twice(name, check):
    """For programs without unittest: whether a check is passed, at once or at the second try."""
    if check():
        return True
    print(f"second try: {name}", file=sys.stderr)
    if not check():
        return False
    note([name])
    return True


def cases(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from cases(entry)
        else:
            yield entry


def run(suite):
    runner = unittest.TextTestRunner(stream=sys.stderr, verbosity=2, resultclass=TimedResult)
    return runner.run(suite)


def main(argv=None):
    beside.mark()
    words = (sys.argv if argv is None else argv)[1:]
    names = [word for word in words if not word.startswith("-")]
    loader = unittest.defaultTestLoader
    module = sys.modules["__main__"]
    suite = (
        loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    )
    first = run(suite)
    failed = {test.id() for test, _ in first.failures + first.errors}
    if not beside.end_of_test():
        sys.exit(1)
    if not failed:
        sys.exit(0)
    # What stood in setUpClass is set up anew: its names are of the class, and all of it is run.
    every = (
        loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    )
    again = [
        case
        for case in cases(every)
        if case.id() in failed or any(type(case).__qualname__ + ")" in name for name in failed)
    ]
    print(f"\nsecond try: {', '.join(sorted(failed))}", file=sys.stderr)
    second = run(unittest.TestSuite(again))
    if not second.wasSuccessful() or not beside.end_of_test():
        sys.exit(1)
    note(name.removeprefix("__main__.") for name in failed)
    sys.exit(0)
