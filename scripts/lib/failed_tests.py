"""Prints the end of what each failed test said, from ctest's JUnit files: the last lines of a long
log are the ones that are read.

usage: failed_tests.py FILE...           the failed ones
       failed_tests.py --count FILE...   how many passed, failed and were skipped
"""

import os
import re
import sys
import xml.etree.ElementTree as tree

LINES = 30
# Under a sanitizer a program of many cases is one test of ctest's; GoogleTest says how many.
CASES_RAN = re.compile(r"^\[=+\] (\d+) tests from \d+ test suites? ran", re.MULTILINE)

count = sys.argv[1] == "--count"
results = {"run": 0, "fail": 0, "notrun": 0, "disabled": 0}
for file in filter(os.path.exists, sys.argv[1:]):
    for case in tree.parse(file).getroot().iter("testcase"):
        status = case.get("status")
        ran = CASES_RAN.search(case.findtext("system-out") or "") if status == "run" else None
        results[status] = results.get(status, 0) + (int(ran.group(1)) if ran else 1)
        if count or status != "fail":
            continue
        said = (case.findtext("system-out") or "nothing").strip().splitlines()
        print(f"\nfailed: {case.get('name')} ({file}), the end of what it said:")
        print("\n".join("    " + line for line in said[-LINES:]))
if count:
    skipped = results["notrun"] + results["disabled"]
    print(f"\n{results['run']} passed, {results['fail']} failed, {skipped} skipped")
