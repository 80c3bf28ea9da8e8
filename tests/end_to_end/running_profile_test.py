"""lockstep profile --pid: a job that runs already, without probes and without a restart."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests/support"))
import beside  # noqa: E402
import second_try  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
PYTHON = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin", "python")
PEERS = os.path.join(os.environ["LOCKSTEP_PEERS"], "bin")
PROGRAMS = os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes")

if not os.path.exists(PYTHON):
    print("skipped: no torch for Python in the cache folder (scripts/setup --tests)")
    sys.exit(77)


def line_of(program, cause):
    with open(os.path.join(PROGRAMS, program), encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if f"# CAUSE: {cause}" in line)


class RunningProfile(unittest.TestCase):
    def setUp(self):
        # as many scopes as tests: what one leaves behind is none of the next one's
        self.environment = dict(
            os.environ,
            PATH=PEERS + ":/usr/bin:/bin",
            LOCKSTEP_VIRTUAL_SCOPE=f"{self.id()}-{os.getpid()}",
            OMP_NUM_THREADS="1",
        )

    def start(self, *command, **more):
        process = subprocess.Popen(
            [PYTHON, *command],
            env=dict(self.environment, **more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.addCleanup(beside.stop, process)
        return process

    def pids_on_gpus(self, count):
        for _ in range(60):
            listed = subprocess.run(
                [LOCKSTEP, "monitor", "--once", "--json", f"virtual:{count}"],
                env=self.environment,
                capture_output=True,
                text=True,
            )
            pids = [process["pid"] for process in json.loads(listed.stdout)["processes"]]
            if len(pids) == count:
                return pids
            time.sleep(0.5)
        self.fail(f"no {count} processes on virtual GPUs: {listed.stdout[-1000:]}")

    def profile(self, *arguments):
        return subprocess.run(
            [LOCKSTEP, "profile", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def test_stacks_name_the_line_and_what_a_restart_would_add_is_said(self):
        training = self.start(os.path.join(PROGRAMS, "one_cause.py"), "logs", "600")
        self.pids_on_gpus(1)
        with tempfile.TemporaryDirectory() as folder:
            flame = os.path.join(folder, "flame.svg")
            done = self.profile(
                *("--pid", str(training.pid), "--duration", "10s", "--json", "virtual:1"),
                *("--flame", flame),
            )
            self.assertEqual(done.returncode, 1, done.stderr)
            with open(flame, encoding="utf-8") as file:
                self.assertIn("log_metrics one_cause.py", file.read())
        report = json.loads(done.stdout)
        line = line_of("one_cause.py", "logs")
        seen = next(entry for entry in report["stacks"]["lines"] if entry["line"] == line)
        self.assertEqual(seen["part"], "logging")
        # Half of it; how much exactly depends on what else the machine does (outside_test.py).
        self.assertGreater(seen["share"], 0.2)
        self.assertGreater(report["stacks"]["samples"], 40)
        self.assertIn("S302", [finding["code"] for finding in report["findings"]])
        missing = {entry["signal"]: entry["reason"] for entry in report["not_measured"]}
        self.assertIn("lockstep profile -- CMD", missing["steps"])
        self.assertIsNone(training.poll(), "the job goes on")

    def test_one_ranks_pid_stands_for_its_job_and_a_trace_is_asked_for(self):
        self.start(
            *("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"),
            os.path.join(PROGRAMS, "ddp_on_virtual_gpus.py"),
            SECONDS_TO_TRAIN="600",
            KINETO_USE_DAEMON="1",
        )
        ranks = self.pids_on_gpus(2)
        done = self.profile("--pid", str(ranks[1]), "--duration", "6s", "--json", "virtual:2")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(sorted(report["jobs"][0]["pids"]), sorted(ranks))
        self.assertIn("traces in", done.stderr)
        self.assertGreaterEqual(report["steps"]["count"], 5)
        line = line_of("ddp_on_virtual_gpus.py", "sleeps")
        self.assertIn(line, [entry["line"] for entry in report["stacks"]["lines"]])
        missing = {entry["signal"]: entry["reason"] for entry in report["not_measured"]}
        self.assertIn("a trace of the profiler", missing["steps"])

    def test_what_cannot_be_profiled_is_refused_in_words(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        done = self.profile("--pid", str(gone.pid), "virtual:1")
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"there is no process {gone.pid}", done.stderr)
        done = self.profile("--pid", str(os.getpid()), "--duration", "2s", "virtual:1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("hold no GPU", done.stderr)
        done = self.profile("--pid", "1", "virtual:1", "--", "true")
        self.assertEqual(done.returncode, 2)
        done = self.profile("--pid", "1", "--dataloader", "virtual:1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("start it anew", done.stderr)


if __name__ == "__main__":
    second_try.main()
