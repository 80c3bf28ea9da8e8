"""What an ordinary user sees of threads: their own, one not to be traced, another user's."""

import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests/support"))
import second_try  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
PROGRAM = os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes", "half_busy.py")
PYTHON = "/usr/bin/python3"
ME, ANOTHER = 65534, 65533


def as_user(user):
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def why_not():
    if os.geteuid() != 0:
        return "needs root, to become two ordinary users"
    if not shutil.which("setpriv") or not os.path.exists(PYTHON):
        return f"needs setpriv and {PYTHON}"
    reached = subprocess.run([*as_user(ME), LOCKSTEP, "--version"], capture_output=True)
    if reached.returncode != 0:
        return f"an ordinary user cannot run {LOCKSTEP}"
    return None


if why_not():
    print("skipped:", why_not())
    sys.exit(77)


class WhatAnOrdinaryUserSees(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lockstep-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o777)

    def watched(self, owner, *words):
        """The looks of a recording, and the report of the same process."""
        # No scope: it is in the environment of the program, which others may not read. No other
        # test has as many GPUs, and what those have on theirs may be root's.
        environment = {"HOME": self.folder, "PATH": "/usr/bin:/bin"}
        file = os.path.join(self.folder, "run.jsonl")
        program = subprocess.Popen(
            [*as_user(owner), PYTHON, PROGRAM, "30", *words],
            env=environment,
            stdout=subprocess.PIPE,
        )
        try:
            program.stdout.readline()  # it has started, and sleeps
            subprocess.run(
                [
                    *as_user(ME),
                    LOCKSTEP,
                    "record",
                    "--duration",
                    "4s",
                    "--gpus",
                    "31",
                    "-o",
                    file,
                    "virtual:32",
                ],
                env=environment,
                check=True,
                capture_output=True,
            )
            report = subprocess.run(
                [
                    *as_user(ME),
                    LOCKSTEP,
                    "diagnose",
                    "--json",
                    "--duration",
                    "3s",
                    "--gpus",
                    "31",
                    "virtual:32",
                ],
                env=environment,
                capture_output=True,
                text=True,
            )
        finally:
            program.kill()
            program.communicate()
        looks, listed = collections.Counter(), False
        with open(file, encoding="utf-8") as lines:
            for line in lines:
                for process in json.loads(line).get("processes") or []:
                    if process["pid"] != program.pid:
                        continue
                    listed = True
                    self.assertEqual(process["state"], "S")
                    looks.update(look["main"] for look in process.get("looks") or [])
        self.assertTrue(listed)
        os.unlink(file)
        return looks, json.loads(report.stdout)

    def refused(self, report):
        return [entry for entry in report["not_measured"] if entry["signal"] == "system calls"]

    def test_of_a_process_of_their_own_everything(self):
        looks, report = self.watched(ME)
        self.assertGreater(looks["sleep"], 20)
        self.assertFalse(self.refused(report))

    def test_of_one_that_may_not_be_traced_nothing_is_made_up(self):
        looks, report = self.watched(ME, "hidden")
        self.assertFalse(looks)
        self.assertIn("root", self.refused(report)[0]["reason"])

    def test_of_another_users_nothing_is_made_up(self):
        looks, report = self.watched(ANOTHER)
        self.assertFalse(looks)
        self.assertIn("root", self.refused(report)[0]["reason"])


if __name__ == "__main__":
    second_try.main()
