"""What a training does while its GPU rests is named from outside: by looks at its threads, and with py-spy by the line."""

import json
import os
import subprocess
import sys
import tempfile
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
        """What lockstep says of the program, and what the program measured itself."""
        path = (PEERS + ":" if stacks else "") + "/usr/bin:/bin"
        with tempfile.TemporaryDirectory() as folder:
            account = os.path.join(folder, "account.json")
            done = subprocess.run(
                [LOCKSTEP, "diagnose", "--json", "--quiet", "--duration", "8s", "virtual:1", "--"]
                + [PYTHON, PROGRAM, cause, "12"],
                env=dict(
                    os.environ,
                    PATH=path,
                    ACCOUNT=account,
                    LOCKSTEP_VIRTUAL_SCOPE=f"outside-{os.getpid()}",
                ),
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertIn(done.returncode, (0, 1), done.stderr[-2000:])
            with open(account, encoding="utf-8") as file:
                return json.loads(done.stdout), json.load(file)

    def expect(self, cause, code, stacks=True):
        report, account = self.report_of(cause, stacks)
        if account["gpu_ran"] < 0.55:  # 0.7 to 0.8 where nothing else runs
            self.skipTest(
                f"the machine was busy elsewhere: the thread that plays the GPU ran for "
                f"{account['gpu_ran']:.0%} of its time"
            )
        findings = {finding["code"]: finding for finding in report["findings"]}
        self.assertIn(code, findings, report["findings"])
        parts = {"D201": "loader", "S302": "rest", "S307": "rest"}
        # Beside a load of others' the loader's workers come late in truth.
        true = {each for each, part in parts.items() if account[part] > 0.05}
        self.assertFalse(set(findings) - {code} - true, (account, report["findings"]))
        lost = findings[code]["lost_throughput"]
        # What the machine took from the GPU's thread looks like rest, too.
        rested = 1 - account["gpu"] * account["gpu_ran"]
        self.assertGreater(lost, account[parts[code]] - 0.15, account)
        self.assertLess(lost, rested + 0.05, account)
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
        report, _ = self.report_of("collects", stacks=True)
        self.assertIn("S306", [finding["code"] for finding in report["findings"]])


if __name__ == "__main__":
    second_try.main()
