#!/usr/bin/env python3
"""The Python probe in loops of every shape, on every Python that is here: what a program prints is as ever, and every step is seen.

Frames differ from one CPython to the next (from 3.11 on a back jump has no line). The machine's own always runs; with
LOCKSTEP_WHOLE=1 (scripts/test --whole) also those that `scripts/setup --interpreters` brings from other Debian suites.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

BINARY = os.environ["LOCKSTEP_BINARY"]
TORCH = os.environ["LOCKSTEP_TORCH"]
PYTHON = os.path.join(TORCH, "bin", "python")
SHAPES = os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes", "loop_shapes.py")
OTHERS = os.path.join(os.path.dirname(TORCH), "interpreters", "3.*", "usr", "bin", "python3.*[0-9]")
SEEN_AT_LEAST = 0.97

if not os.path.exists(PYTHON):
    print(f"skipped: no torch in {os.path.dirname(PYTHON)}; scripts/setup --tests makes it")
    sys.exit(77)


class LoopsOfEveryShape(unittest.TestCase):
    def run_with(self, python, probes=()):
        with tempfile.TemporaryDirectory() as folder:
            record, report = (os.path.join(folder, name) for name in ("run.jsonl", "report.txt"))
            alone, profiled = (
                subprocess.run(
                    [*before, python, SHAPES],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=200,
                )
                for before in (
                    [],
                    [BINARY, "profile", *probes, "--record", record, "-o", report, "--"],
                )
            )
            self.assertEqual(alone.returncode, 0, alone.stderr)
            self.assertEqual(profiled.stdout, alone.stdout, profiled.stderr)
            self.assertNotIn("probe stops", profiled.stderr)
            with open(report, encoding="utf-8") as file:
                self.assertNotIn("overwritten", file.read())
            with open(record, encoding="utf-8") as file:
                seen = sum("step" in json.loads(line) for line in file)
            taken = int(alone.stdout.split()[-1])
            print(f"    {os.path.basename(python)}: {seen} of {taken} steps", flush=True)
            # A step reaches from the end of one to the end of the next: the first has no beginning.
            self.assertGreaterEqual(seen, SEEN_AT_LEAST * taken)
            self.assertLessEqual(seen, taken)

    def test_are_seen_step_by_step_by_the_machines_own_python(self):
        self.run_with(PYTHON)

    @second_try.whole_only
    def test_are_seen_step_by_step_by_other_pythons(self):
        pythons = sorted(glob.glob(OTHERS))
        if not pythons:
            self.skipTest(f"no {OTHERS}: scripts/setup --interpreters brings them")
        for python in pythons:
            with self.subTest(python=python):
                # With a C library of its own that is older than this machine's: nothing that was
                # compiled here can be loaded into it.
                self.run_with(python, ("--probe", "python"))


if __name__ == "__main__":
    second_try.main()
