"""What a training does while its GPU rests is named from outside: by looks at its threads, and with py-spy by the line."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests/support"))
import second_try  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
PYTHON = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin", "python")
PEERS = os.path.join(os.environ["LOCKSTEP_PEERS"], "bin")
PROGRAM = os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes", "one_cause.py")

if not os.path.exists(PYTHON):
    print("skipped: no torch for Python in the cache folder (scripts/setup --tests)")
    sys.exit(77)


def line_of(cause):
    with open(PROGRAM, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if f"# CAUSE: {cause}" in line)


class SeenFromOutside(unittest.TestCase):
    def report_of(self, cause, stacks):
        path = (PEERS + ":" if stacks else "") + "/usr/bin:/bin"
        done = subprocess.run(
            [LOCKSTEP, "diagnose", "--json", "--quiet", "--duration", "8s", "virtual:1", "--"]
            + [PYTHON, PROGRAM, cause, "12"],
            env=dict(os.environ, PATH=path, LOCKSTEP_VIRTUAL_SCOPE=f"outside-{os.getpid()}"),
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertIn(done.returncode, (0, 1), done.stderr[-2000:])
        return json.loads(done.stdout)

    def expect(self, cause, code, stacks=True):
        report = self.report_of(cause, stacks)
        findings = {finding["code"]: finding for finding in report["findings"]}
        self.assertIn(code, findings, report["findings"])
        blamed = set(findings) - {code}
        self.assertFalse(blamed, report["findings"])
        lost = findings[code]["lost_throughput"]
        self.assertTrue(0.35 < lost < 0.65, f"{lost} of about a half")
        if stacks:
            self.assertIn(line_of(cause), [place["line"] for place in findings[code]["where"]])

    def test_logging_that_sleeps_is_named_by_its_line(self):
        self.expect("logs", "S302")

    def test_without_py_spy_it_is_known_that_the_main_thread_sleeps(self):
        self.expect("waits", "S307", stacks=False)

    @second_try.whole_only
    def test_a_wait_of_the_users_own_is_named_by_its_line(self):
        self.expect("waits", "S307")

    @second_try.whole_only
    def test_a_slow_loader_is_told_by_its_workers(self):
        self.expect("slow-loader", "D201", stacks=False)

    @second_try.whole_only
    def test_a_slow_loader_is_named_by_the_loop(self):
        self.expect("slow-loader", "D201")

    @second_try.whole_only
    def test_collections_are_named_by_their_line(self):
        report = self.report_of("collects", stacks=True)
        self.assertIn("S306", [finding["code"] for finding in report["findings"]])


if __name__ == "__main__":
    second_try.main()
