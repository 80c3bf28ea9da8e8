#!/usr/bin/env python3
"""Several machines without a scheduler: lockstep launch on two, each with a network, host name and processes of its own.

usage: hosts_test.py [-v] [TEST...]   skipped, with the reason, where namespaces cannot be made
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import machines
from slurm_cluster import until
from small_training import FLAGS, SameLosses, alone, losses_in, steps_in

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
BIN = os.path.dirname(LOCKSTEP)
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")

TRAIN = [os.path.join(BIN, "lockstep-train"), *FLAGS]


class Running:
    """A launcher on a machine, its words in a file."""

    def __init__(self, machine, words, file):
        self.file = file
        with open(file, "w") as output:
            self.process = machine.popen(
                *words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(
                    os.environ,
                    PATH=f"{BIN}:{TORCH}:{os.environ['PATH']}",
                    XDG_RUNTIME_DIR="/run",
                    OMP_NUM_THREADS="1",
                ),
            )

    def text(self):
        return self.file.read_text(errors="replace")

    def code(self, seconds=90):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.text()[-3000:]}")


class TwoHosts(SameLosses, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = machines.why_not()
        if not why and not os.path.exists(TRAIN[0]):
            why = "this build has no lockstep-train (no libtorch)"
        if why:
            raise unittest.SkipTest(why)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        network = machines.Machines("alpha", "beta")
        self.alpha, self.beta = network.__enter__()
        self.addCleanup(network.__exit__)
        self.started = 0

    def start(self, machine, *words):
        self.started += 1
        return Running(machine, words, self.folder / f"{machine.name}-{self.started}.log")

    def launch(self, machine, node, *words, flags=()):
        return self.start(
            machine,
            LOCKSTEP,
            "launch",
            "--nnodes=2",
            f"--node-rank={node}",
            "--master-addr=alpha",
            "--nproc-per-node=1",
            "--no-python",
            *flags,
            *words,
        )

    def nothing_is_left(self, *hosts):
        until(
            lambda: not any(host.processes() for host in hosts),
            20,
            lambda: f"still there: {[host.processes() for host in hosts]}",
        )

    def wait_for_step(self, running, step):
        until(
            lambda: any(seen >= step for seen in losses_in(running.text())),
            60,
            lambda: f"step {step} did not come:\n{running.text()[-3000:]}",
        )

    def test_two_hosts_train_as_one(self):
        ranks = [
            self.launch(machine, node, *TRAIN, "--steps", "20")
            for node, machine in enumerate((self.alpha, self.beta))
        ]
        self.assertEqual([rank.code() for rank in ranks], [0, 0], ranks[0].text() + ranks[1].text())
        self.near(alone(BIN, "--steps", "20"), losses_in(ranks[0].text()))
        self.nothing_is_left(self.alpha, self.beta)

    def test_a_rank_that_fails_on_one_host_ends_both_with_its_code(self):
        words = ["sh", "-c", '[ "$RANK" = 1 ] && sleep 1 && exit 7; sleep 1000']
        began = time.monotonic()
        ranks = [
            self.launch(machine, node, *words)
            for node, machine in enumerate((self.alpha, self.beta))
        ]
        self.assertEqual([rank.code() for rank in ranks], [7, 7], ranks[0].text() + ranks[1].text())
        self.assertLess(time.monotonic() - began, 30, "both ended at once")
        self.assertRegex(ranks[0].text(), r"rank 1 failed first, on node 1 \(beta\), with code 7")
        self.assertIn("host beta", ranks[1].text())
        self.nothing_is_left(self.alpha, self.beta)

    def test_a_failed_rank_starts_again_with_all_others(self):
        flag = self.folder / "failed"
        words = [
            "sh",
            "-c",
            f"echo rank $RANK of $WORLD_SIZE attempt $TORCHELASTIC_RESTART_COUNT at $MASTER_ADDR:$MASTER_PORT; [ $RANK = 1 ] && [ ! -e {flag} ] && touch {flag} && exit 3; sleep 1",
        ]
        ranks = [
            self.launch(machine, node, *words, flags=["--max-restarts=2"])
            for node, machine in enumerate((self.alpha, self.beta))
        ]
        self.assertEqual([rank.code() for rank in ranks], [0, 0], ranks[0].text() + ranks[1].text())
        for rank, running in enumerate(ranks):
            self.assertIn(f"rank {rank} of 2 attempt 1 at alpha:", running.text())

    def test_a_lost_host_is_noticed_and_may_come_again(self):
        flags = ["--max-restarts=3"]
        train = [
            *TRAIN,
            "--steps",
            "300",
            "--checkpoint-dir",
            str(self.folder / "saved"),
            "--save-every",
            "20",
            "--loader-delay",
            "20ms",
            "--timeout",
            "60s",
        ]
        first = self.launch(self.alpha, 0, *train, flags=flags)
        self.launch(self.beta, 1, *train, flags=flags)
        self.wait_for_step(first, 45)
        began = time.monotonic()
        self.beta.lose_power()
        until(lambda: "node 1 (beta) is lost" in first.text(), 60, lambda: first.text()[-3000:])
        noticed = time.monotonic() - began
        self.assertLess(noticed, 40)
        self.beta.start()
        second = self.launch(self.beta, 1, *train, flags=flags)
        self.assertEqual(
            [first.code(120), second.code()], [0, 0], first.text()[-3000:] + second.text()[-3000:]
        )
        self.near(alone(BIN, "--steps", "300"), losses_in(first.text()))
        self.assertEqual(steps_in(first.text()).count(1), 1, "it began anew")
        self.nothing_is_left(self.alpha, self.beta)

    @second_try.whole_only
    def test_without_restarts_a_lost_host_ends_the_job(self):
        for lost, kept in ((self.beta, self.alpha), (self.alpha, self.beta)):
            with self.subTest(lost=lost.name):
                running = {
                    machine.name: self.launch(machine, node, "sleep", "1000")
                    for node, machine in enumerate((self.alpha, self.beta))
                }
                until(
                    lambda: any("sleep 1000" == words for words in kept.processes().values()),
                    30,
                    lambda: running[kept.name].text(),
                )
                began = time.monotonic()
                lost.lose_power()
                self.assertNotEqual(running[kept.name].code(60), 0)
                self.assertLess(time.monotonic() - began, 50)
                self.assertIn(f"({lost.name}) is lost", running[kept.name].text())
                self.nothing_is_left(kept)
                lost.start()

    def test_a_host_that_never_comes_is_named(self):
        alone = self.launch(self.alpha, 0, "true", flags=["--rdzv-conf=timeout=2"])
        self.assertEqual(alone.code(), 3)
        self.assertRegex(alone.text(), "L806 ranks-missing: node 1 did not come")
        lonely = self.start(
            self.beta,
            LOCKSTEP,
            "launch",
            "--nnodes=2",
            "--node-rank=1",
            "--master-addr=gamma",
            "--rdzv-conf=timeout=2",
            "--no-python",
            "true",
        )
        self.assertEqual(lonely.code(), 3)
        self.assertIn("gamma", lonely.text())

    def test_recordings_of_both_hosts_become_one_report(self):
        """The last rank computes longer in every step; beta's clock is made 3.7 s wrong."""
        train = [
            *TRAIN,
            "--width",
            "64",
            "--sequence-length",
            "64",
            "--steps",
            "100000",
            "--log-every",
            "50",
            "--fault",
            "slow-rank",
            "--fault-share",
            "2",  # late whatever else the machine does
            "--parallel",
            "ddp",
        ]
        files = {
            machine: self.folder / f"{machine.name}.jsonl" for machine in (self.alpha, self.beta)
        }
        cores = sorted(os.sched_getaffinity(0))  # a machine has cores of its own
        running = [
            self.start(
                machine,
                "taskset",
                "--cpu-list",
                cores[node % len(cores)],
                LOCKSTEP,
                "record",
                "-o",
                file,
                "--duration",
                "12s",
                "virtual:1",
                "--",
                LOCKSTEP,
                "launch",
                "--nnodes=2",
                f"--node-rank={node}",
                "--master-addr=alpha",
                "--nproc-per-node=1",
                "--no-python",
                *train,
            )
            for node, (machine, file) in enumerate(files.items())
        ]

        def seen(file):
            text = file.read_text() if file.exists() else ""
            # they are looked for every two seconds
            return text.count('"step":') > 60 and text.count('"processes":[{') > 2

        until(
            lambda: all(map(seen, files.values())),
            60,
            lambda: running[0].text() + running[1].text(),
        )
        for machine in files:
            machine.run("pkill", "lockstep-train")
        for one in running:
            one.code()
        header, rest = files[self.beta].read_text().split("\n", 1)
        wrong = json.loads(header)
        wrong["started_unix_ns"] += 3_700_000_000
        files[self.beta].write_text(json.dumps(wrong) + "\n" + rest)
        done = subprocess.run(
            [LOCKSTEP, "diagnose", *files.values(), "--json"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout[-2000:])
        report = json.loads(done.stdout)
        self.assertEqual([clock["host"] for clock in report["clocks"]], ["alpha", "beta"])
        self.assertAlmostEqual(report["clocks"][1]["ahead_ms"], 3700, delta=30)
        self.assertEqual(report["verdict"]["pattern"], "in-step", report["verdict"])
        late = [finding for finding in report["findings"] if finding["code"] == "C401"]
        self.assertTrue(late, report["findings"])
        self.assertEqual(late[0]["hosts"], [{"host": "beta", "gpus": [0]}])
        self.assertEqual(late[0]["ranks"], [1])
        text = subprocess.run(
            [LOCKSTEP, "diagnose", *files.values()], capture_output=True, text=True, timeout=60
        ).stdout
        self.assertIn("beta GPU 0", text)
        self.assertRegex(text, r"beta +\+3[67]\d\d\.\d ms")

    @second_try.whole_only
    def test_one_host_runs_torchrun(self):
        if not os.path.exists(os.path.join(TORCH, "torchrun")):
            self.skipTest(
                "torchrun is not in the cache's virtual environment; scripts/setup --tests does that"
            )
        truth = alone(BIN, "--steps", "20")
        for name, meeting in (
            ("c10d", ["--rdzv-backend=c10d", "--rdzv-endpoint=alpha:29400", "--rdzv-id=both"]),
            ("static", ["--master-addr=alpha", "--master-port=29500"]),
        ):
            for own, peer in ((self.alpha, self.beta), (self.beta, self.alpha)):
                with self.subTest(name, torchrun=peer.name):
                    place = {self.alpha: "--node-rank=0", self.beta: "--node-rank=1"}
                    common = ["--nnodes=2", "--nproc-per-node=1", *meeting]
                    static = name == "static"
                    ours = self.start(
                        own,
                        LOCKSTEP,
                        "launch",
                        *common,
                        *([place[own], "--with-torchrun"] if static else []),
                        "--no-python",
                        *TRAIN,
                        "--steps",
                        "20",
                    )
                    theirs = self.start(
                        peer,
                        "torchrun",
                        *common,
                        *([place[peer]] if static else []),
                        "--no-python",
                        *TRAIN,
                        "--steps",
                        "20",
                    )
                    self.assertEqual(
                        [ours.code(), theirs.code()],
                        [0, 0],
                        ours.text()[-3000:] + theirs.text()[-3000:],
                    )
                    self.near(truth, losses_in(ours.text() + theirs.text()))
                    self.nothing_is_left(self.alpha, self.beta)


if __name__ == "__main__":
    second_try.main()
