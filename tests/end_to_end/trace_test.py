#!/usr/bin/env python3
"""lockstep trace against the stock PyTorch: a two-rank script that knows nothing of it, asked while it trains; and the flight recorder's
own dumps of a job that hangs."""

import contextlib
import glob
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import beside  # noqa: E402  (lies beside the tests)
import second_try  # noqa: E402

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TORCH = os.environ["LOCKSTEP_TORCH"]
SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]
PYTHON = os.path.join(TORCH, "bin", "python")
SCRIPT = os.path.join(SOURCE, "tests", "probes", "plain_ddp.py")

if not os.path.exists(PYTHON):
    print(f"skipped: no torch at {TORCH}: scripts/setup --tests puts it there")
    sys.exit(77)

HANGS = """
import datetime, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
rank = dist.get_rank()
for _ in range(3):
    dist.all_reduce(torch.ones(8))
if rank == 0:
    try:
        dist.all_reduce(torch.ones(16))
    except RuntimeError:
        pass
else:
    time.sleep(2)
import torch._C._distributed_c10d as c10d
with open(f"{sys.argv[1]}/nccl_trace_rank_{rank}", "wb") as out:
    out.write(c10d._dump_fr_trace())
with open(f"{sys.argv[1]}/dump_{rank}.json", "wb") as out:
    out.write(c10d._dump_fr_trace_json())
"""


def lockstep(*arguments, **environment):
    return subprocess.run(
        [LOCKSTEP, *arguments],
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
        timeout=200,
    )


class Training:
    """A command that runs beside the test."""

    def __init__(self, command, **environment):
        self.process = subprocess.Popen(
            command,
            env=dict(os.environ, OMP_NUM_THREADS="1", **environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        beside.stop(self.process)


def torchrun(seconds):
    return [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", SCRIPT], {
        "KINETO_USE_DAEMON": "1",
        "SECONDS_TO_TRAIN": str(seconds),
    }


class OnDemand(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def trace_until_there(self, *arguments, patience=60, **environment):
        """Asks again while torch is still being imported."""
        until = time.monotonic() + patience
        while True:
            end = lockstep("trace", "--json", *arguments, **environment)
            if end.returncode != 3 or time.monotonic() > until:
                return end
            time.sleep(1)

    def test_traces_an_unmodified_script_on_both_ranks_at_the_same_moment(self):
        command, environment = torchrun(600)
        # from its start to the end of the with: by itself it would end while a slow machine asks
        with Training(command, **environment) as training:
            end = self.trace_until_there(
                *("--steps", "5", "-o", self.folder.name, "--pid", str(training.process.pid))
            )
        self.assertIn(end.returncode, (0, 1), end.stderr)
        report = json.loads(end.stdout)
        self.assertEqual(report["source"]["kind"], "trace")
        self.assertGreaterEqual(report["steps"]["count"], 5)
        self.assertEqual([rank["rank"] for rank in report["steps"]["ranks"]], [0, 1])
        self.assertEqual(report["verdict"]["pattern"], "in-step")
        files = sorted(glob.glob(os.path.join(self.folder.name, "*.json")))
        self.assertEqual(len(files), 2)
        begins = []
        for file in files:
            with open(file, encoding="utf-8") as stream:
                trace = json.load(stream)
            self.assertGreaterEqual(
                sum(
                    event.get("name", "").startswith("Optimizer.step")
                    for event in trace["traceEvents"]
                ),
                6,
            )
            begins.append(
                min(event["ts"] for event in trace["traceEvents"] if event.get("ph") == "X")
                + trace["baseTimeNanoseconds"] / 1e3
            )
        self.assertLess(abs(begins[0] - begins[1]), 100e3, "both begin within a tenth of a second")
        self.assertEqual(
            glob.glob("/tmp/lockstep-trace-*.json"), [], "nothing is left where the ranks wrote"
        )

    @second_try.whole_only
    def test_takes_over_from_the_lockstep_that_launched_the_ranks(self):
        with tempfile.TemporaryDirectory() as runtime:
            environment = {
                "XDG_RUNTIME_DIR": runtime,
                "SECONDS_TO_TRAIN": "600",
                "PATH": os.path.join(TORCH, "bin") + ":" + os.environ["PATH"],
            }
            with Training(
                [LOCKSTEP, "launch", "--probe", "--nproc_per_node=2", SCRIPT], **environment
            ) as training:
                asked = ("--duration", "500ms", "-o", self.folder.name)
                asked += ("--pid", str(training.process.pid))
                end = self.trace_until_there(*asked, XDG_RUNTIME_DIR=runtime)
                self.assertIn(end.returncode, (0, 1), end.stderr)
                again = self.trace_until_there(*asked, XDG_RUNTIME_DIR=runtime)
                self.assertIn(again.returncode, (0, 1), again.stderr)
            self.assertEqual(
                glob.glob(os.path.join(runtime, "lockstep", "kineto-*")),
                [],
                "nothing is left behind",
            )

    def test_steps_aside_with_a_sentence(self):
        other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(other.close)
        other.bind(b"\0dynolog\0")
        command, environment = torchrun(600)
        with Training(command, **environment) as training:
            until = time.monotonic() + 60
            while True:
                end = lockstep("trace", "--pid", str(training.process.pid))
                if "another daemon" in end.stderr or time.monotonic() > until:
                    break
                time.sleep(1)
        self.assertEqual(end.returncode, 3)
        self.assertIn("another daemon answers", end.stderr)
        self.assertIn("next:", end.stderr)

    def test_two_trainings_are_not_taken_for_one(self):
        with contextlib.ExitStack() as running:
            trainings = []
            for _ in range(2):
                command = [
                    PYTHON,
                    "-c",
                    "import torch, time; print(torch.ones(1)); time.sleep(600)",
                ]
                trainings.append(running.enter_context(Training(command, KINETO_USE_DAEMON="1")))
            pids = [str(training.process.pid) for training in trainings]
            until = time.monotonic() + 60
            end = lockstep("trace")
            while not all(pid in end.stderr for pid in pids) and time.monotonic() < until:
                time.sleep(0.5)
                end = lockstep("trace")
        self.assertEqual(end.returncode, 3)
        self.assertIn("trainings here can be asked for a trace", end.stderr)
        for pid in pids:
            self.assertIn(pid, end.stderr)
        self.assertIn("choose one: lockstep trace --pid", end.stderr)

    def test_says_how_to_start_what_can_be_asked(self):
        end = lockstep("trace", "--pid", str(os.getpid()))
        self.assertEqual(end.returncode, 3)
        self.assertIn("KINETO_USE_DAEMON", end.stderr)
        for wrong in (
            ["--steps", "0"],
            ["--duration", "5"],
            ["--steps", "3", "--duration", "1s"],
            ["--pid", "x"],
        ):
            self.assertEqual(lockstep("trace", *wrong).returncode, 2, wrong)


class FlightRecorder(unittest.TestCase):
    def test_names_the_rank_that_did_not_come(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "hangs.py")
            with open(script, "w", encoding="utf-8") as out:
                out.write(HANGS)
            subprocess.run(
                [
                    PYTHON,
                    "-m",
                    "torch.distributed.run",
                    "--standalone",
                    "--nproc_per_node=2",
                    script,
                    folder,
                ],
                env=dict(os.environ, OMP_NUM_THREADS="1", TORCH_FR_BUFFER_SIZE="2000"),
                capture_output=True,
                timeout=120,
                check=False,
            )
            for names in (
                ["nccl_trace_rank_0", "nccl_trace_rank_1"],
                ["dump_0.json", "dump_1.json"],
            ):
                end = lockstep(
                    "diagnose", *(os.path.join(folder, name) for name in names), "--json"
                )
                self.assertEqual(end.returncode, 1, end.stderr)
                finding = json.loads(end.stdout)["findings"][0]
                self.assertEqual(finding["code"], "C406")
                self.assertEqual(finding["ranks"], [1])
                self.assertTrue(
                    any("number 4" in item["signal"] for item in finding["evidence"]), finding
                )


if __name__ == "__main__":
    second_try.main()
