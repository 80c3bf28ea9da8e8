"""Prints the end of what each failed test said, from ctest's JUnit files: the last lines of a long
log are the ones that are read.

usage: failed_tests.py FILE...
"""

import os
import sys
import xml.etree.ElementTree as tree

LINES = 30

for file in filter(os.path.exists, sys.argv[1:]):
    for case in tree.parse(file).getroot().iter("testcase"):
        if case.get("status") == "fail":
            said = (case.findtext("system-out") or "nothing").strip().splitlines()
            print(
                f"\nfailed: {case.get('name')} ({os.path.basename(os.path.dirname(file))}), the end of what it said:"
            )
            print("\n".join("    " + line for line in said[-LINES:]))
