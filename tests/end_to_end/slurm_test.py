#!/usr/bin/env python3
"""Jobs on a real Slurm: Debian's controller and two nodes, each with a network, host name and processes of its own.

usage: slurm_test.py [-v] [TEST...]   skipped, with the reason, where Slurm is not installed or namespaces cannot be made
"""

import os
import pathlib
import shutil
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
import slurm_cluster
from slurm_cluster import until
from small_training import FLAGS, SameLosses, alone, losses_in, steps_in

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
BIN = os.path.dirname(LOCKSTEP)
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")

TRAIN = ["lockstep-train", *FLAGS]
PLAN = ["--gpus", "1x24GB", "--nodes", "2", "--cores", "1", "--model", "gpt2", "--strategy", "ddp"]


class Jobs(SameLosses, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = slurm_cluster.why_not("slurmd", "srun", "scancel") or machines.why_not()
        if not why and not os.path.exists(os.path.join(BIN, "lockstep-train")):
            why = "this build has no lockstep-train (no libtorch)"
        if why:
            raise unittest.SkipTest(why)
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls._folder.name)
        cls.addClassCleanup(cls._folder.cleanup)
        network = machines.Machines("head", "node1", "node2")
        cls.machines = network.__enter__()
        cls.addClassCleanup(network.__exit__)
        cls.node1, cls.node2 = cls.machines[1:]
        os.mkdir(cls.folder / "slurm")
        cls.slurm = slurm_cluster.Slurm(cls.folder / "slurm", cls.machines, cpus=1, gpus=1)
        cls.slurm.environment.update(
            PATH=f"{BIN}:{TORCH}:{os.environ['PATH']}", XDG_RUNTIME_DIR="/run", OMP_NUM_THREADS="1"
        )
        cls.slurm.__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)

    def setUp(self):
        self.work = self.folder / self.id().rsplit(".", 1)[-1]
        self.work.mkdir()

    def emitted(self, launcher, *train):
        """The job that plan writes, with the trainer as its script."""
        done = subprocess.run(
            [
                LOCKSTEP,
                "plan",
                *PLAN,
                "--emit",
                "sbatch",
                "--launcher",
                launcher,
                "--",
                *TRAIN,
                *train,
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        path = self.work / "job.sbatch"
        path.write_text(done.stdout)
        return str(path)

    def submit(self, path):
        return self.slurm.submit(path, cwd=self.work)

    def log(self, job):
        return "".join(path.read_text(errors="replace") for path in self.work.glob(f"*-{job}.log"))

    def wait_for(self, job, state, seconds=90):
        def words():
            return f"{self.slurm.job(job).get('JobState')} and not {state}:\n{self.log(job)[-3000:]}\n{self.slurm.log('slurmctld.log')}"

        until(lambda: self.slurm.job(job).get("JobState") == state, seconds, words)

    def wait_for_step(self, job, step, seconds=60):
        until(
            lambda: any(seen >= step for seen in losses_in(self.log(job))),
            seconds,
            lambda: f"step {step} did not come:\n{self.log(job)[-3000:]}",
        )

    def nothing_is_left(self):
        def strangers():
            return {
                pid: words
                for node in (self.node1, self.node2)
                for pid, words in node.processes().items()
                if not words.startswith("slurmd")
            }

        until(lambda: not strangers(), 20, lambda: f"these are still there: {strangers()}")

    def test_an_emitted_job_trains_on_two_nodes_as_on_one(self):
        truth = alone(BIN, "--steps", "20")
        for launcher in ("lockstep", "torchrun"):
            with self.subTest(launcher):
                if launcher == "torchrun" and not os.path.exists(os.path.join(TORCH, "torchrun")):
                    self.skipTest(
                        "torchrun is not in the cache's virtual environment; scripts/setup --tests does that"
                    )
                job = self.submit(self.emitted(launcher, "--steps", "20"))
                self.wait_for(job, "COMPLETED")
                self.near(truth, losses_in(self.log(job)))
                self.assertEqual(self.slurm.job(job)["NumNodes"], "2")
                self.nothing_is_left()

    def test_srun_itself_starts_the_ranks(self):
        truth = alone(BIN, "--steps", "20")
        ways = {
            "the trainer": TRAIN,
            "the trainer with PMI": ["--mpi=pmi2", *TRAIN],
            "lockstep launch": ["lockstep", "launch", "--no-python", *TRAIN],
        }
        for name, words in ways.items():
            with self.subTest(name):
                done = self.slurm.run(
                    "srun",
                    "--nodes=2",
                    "--ntasks=2",
                    "--kill-on-bad-exit=1",
                    *words,
                    "--steps",
                    "20",
                    cwd=self.work,
                    timeout=90,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.near(truth, losses_in(done.stdout))
                self.nothing_is_left()

    def test_an_mpirun_within_a_job_numbers_its_ranks_itself(self):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("mpirun.openmpi is not installed; scripts/setup --tests does that")
        job = self.work / "mpi.sbatch"
        job.write_text(
            '#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --output=mpi-%j.log\nexport MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29555\n'
            "mpirun.openmpi --allow-run-as-root -n 2 --map-by node "
            + " ".join(TRAIN)
            + " --steps 20\n"
        )
        number = self.submit(str(job))
        self.wait_for(number, "COMPLETED")
        self.near(alone(BIN, "--steps", "20"), losses_in(self.log(number)))
        self.nothing_is_left()

    def test_a_failed_rank_ends_the_job_with_its_own_code(self):
        words = ["sh", "-c", '[ "$RANK" = 1 ] && exit 7; sleep 100']
        began = time.monotonic()
        done = self.slurm.run(
            "srun",
            "--nodes=2",
            "--ntasks-per-node=1",
            "--kill-on-bad-exit=1",
            "lockstep",
            "launch",
            "--no-python",
            "--nproc-per-node=1",
            *words,
            cwd=self.work,
            timeout=90,
        )
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("rank 1 failed first", done.stderr)
        self.assertLess(time.monotonic() - began, 60)
        self.nothing_is_left()

    def test_scancel_leaves_no_process_and_a_checkpoint_to_go_on_from(self):
        for launcher in ("lockstep", "torchrun"):
            with self.subTest(launcher):
                saved = self.work / launcher
                flags = [
                    "--steps",
                    "4000",
                    "--loader-delay",
                    "20ms",
                    "--checkpoint-dir",
                    str(saved),
                    "--save-every",
                    "10",
                ]
                job = self.submit(self.emitted(launcher, *flags))
                self.wait_for_step(job, 25)
                self.slurm.run("scancel", job)
                self.wait_for(job, "CANCELLED")
                self.nothing_is_left()
                last = max(losses_in(self.log(job)))
                self.assertFalse(
                    [name for name in os.listdir(saved) if not name.endswith(".safetensors")],
                    "half-written files",
                )
                again = self.submit(self.emitted(launcher, *flags[:1], str(last + 5), *flags[2:]))
                self.wait_for(again, "COMPLETED")
                self.assertEqual(
                    min(losses_in(self.log(again))),
                    last + 1,
                    "it did not save when it was told to end",
                )
                self.assertEqual(max(losses_in(self.log(again))), last + 5)

    def test_ranks_may_save_before_their_time_is_up(self):
        """What --signal=TERM@120 sends two minutes before the end; one rank needs longer to save
        than the other.
        """
        # Slurm tells every process of a task, and the launcher hands it on as well: a rank hears it
        # twice.
        rank = self.work / "rank.py"
        rank.write_text(
            "import os, pathlib, signal, threading\n"
            "told = threading.Event()\n"
            "signal.signal(signal.SIGTERM, lambda *_: told.set())\n"
            "pathlib.Path('ready-' + os.environ['RANK']).touch()\n"
            "while not told.wait(0.1): pass\n"
            "threading.Event().wait(1 + 3 * int(os.environ['RANK']))\n"
            "pathlib.Path('saved-' + os.environ['RANK']).touch()\n"
        )
        done = subprocess.run(
            [
                LOCKSTEP,
                "plan",
                *PLAN,
                "--emit",
                "sbatch",
                "--launcher",
                "lockstep",
                "--",
                str(rank),
            ],
            capture_output=True,
            text=True,
        )
        path = self.work / "job.sbatch"
        path.write_text(done.stdout)
        self.assertIn("--signal=TERM@120", done.stdout)
        job = self.submit(str(path))
        until(
            lambda: all((self.work / f"ready-{rank}").exists() for rank in (0, 1)),
            30,
            lambda: self.log(job),
        )
        self.slurm.run("scancel", "--signal=TERM", job)
        until(
            lambda: self.slurm.job(job).get("JobState") not in ("RUNNING", "COMPLETING"),
            40,
            lambda: self.log(job),
        )
        self.assertEqual(
            sorted(file.name for file in self.work.glob("saved-*")),
            ["saved-0", "saved-1"],
            self.log(job),
        )
        self.nothing_is_left()

    @second_try.whole_only
    def test_a_lost_node_brings_the_job_back_from_its_checkpoint(self):
        truth = alone(BIN, "--steps", "300")
        slowly = ["--loader-delay", "20ms"]  # so that there is time to lose a node
        job = self.submit(
            self.emitted(
                "lockstep",
                "--steps",
                "300",
                "--checkpoint-dir",
                str(self.work / "saved"),
                "--save-every",
                "20",
                *slowly,
            )
        )
        self.wait_for_step(job, 45)
        self.node2.lose_power()
        until(
            lambda: self.slurm.job(job).get("Restarts") == "1",
            90,
            lambda: f"not queued again: {self.slurm.job(job)}\n{self.slurm.log('slurmctld.log')}",
        )
        self.node2.start()
        self.slurm.start_daemon(self.node2)
        self.wait_for(job, "COMPLETED", 180)
        self.near(truth, losses_in(self.log(job)))
        self.assertEqual(steps_in(self.log(job)).count(1), 1, "it began anew")
        self.nothing_is_left()


if __name__ == "__main__":
    second_try.main()
