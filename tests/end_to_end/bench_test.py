#!/usr/bin/env python3
"""lockstep bench on real load: the ways to train on virtual GPUs, and a script of a user's own. Speed is scripts/bench's matter.

usage: bench_test.py [-v] [TEST...]
"""

import csv
import io
import json
import os
import pathlib
import subprocess
import tempfile
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TRAIN = os.path.join(os.path.dirname(LOCKSTEP), "lockstep-train")
PYTHON = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin/python")
SCHEMAS = pathlib.Path(os.environ["LOCKSTEP_SOURCE_DIR"]) / "docs/formats"
PEERS = os.path.join(os.environ["LOCKSTEP_PEERS"], "bin/python")

SCRIPT = """
import argparse, os, torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=8)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--logging_steps", type=int, default=10)
options = parser.parse_args()
torch.set_num_threads(1)
dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
data = TensorDataset(torch.randn(65536, 256), torch.randint(0, 8, (65536,)))
sampler = DistributedSampler(data)
for epoch in range(1000):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=options.per_device_train_batch_size, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
"""


def bench(*words, timeout=300):
    return subprocess.run(
        [LOCKSTEP, "bench", *map(str, words)], capture_output=True, text=True, timeout=timeout
    )


class Scaling(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(TRAIN):
            self.skipTest("this build has no lockstep-train (no libtorch)")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def follows_schema(self, text):
        if not os.path.exists(PEERS):
            return
        check = "import json, sys, jsonschema; jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))"
        done = subprocess.run(
            [PEERS, "-c", check, SCHEMAS / "bench.schema.json"],
            input=text,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-1500:])

    @second_try.whole_only
    def test_all_ways_on_two_virtual_gpus(self):
        files = [self.folder / f"scaling.{kind}" for kind in ("html", "svg", "csv", "json")]
        done = bench(
            "scaling",
            "--devices",
            "1,2",
            "--rounds",
            "1",
            "--duration",
            "3s",
            "--batch-size",
            "4",
            "--buckets",
            "1",
            *[word for file in files for word in ("-o", file)],
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(files[3].read_text())
        self.follows_schema(files[3].read_text())
        rows = {row["title"]: row for row in report["rows"]}
        self.assertEqual(
            list(rows),
            [
                "single",
                "naive",
                "data-parallel",
                "DDP",
                "DDP, same batch in all",
                "DDP, 4 passes, no_sync",
                "DDP, 4 passes, exchange after each",
                "DDP, buckets of 1 MB",
            ],
        )
        self.assertEqual(report["rows"][0]["speedup"], 1)
        for title, row in rows.items():
            self.assertGreater(row["speed"], 0, title)
            self.assertEqual(len(row["busy"]), row["devices"], title)
            self.assertIn("backward", [part["name"] for part in row["parts"]], title)
            self.assertAlmostEqual(row["efficiency"], row["speedup"] / row["devices"], places=6)
        if os.cpu_count() >= 2:
            # Two parts of one model by turns, two copies at once: whatever else the machine does,
            # these do not change places.
            self.assertGreater(rows["DDP"]["speedup"], rows["naive"]["speedup"])
            self.assertTrue(report["fit"]["expected_weak"])
        self.assertTrue(report["machine"]["virtual"])
        self.assertIn("virtual GPU", done.stdout)
        self.assertIn("DDP, 4 passes, no_sync", done.stdout)
        table = list(csv.DictReader(io.StringIO(files[2].read_text())))
        self.assertEqual([line["title"] for line in table], list(rows))
        self.assertTrue(xml.etree.ElementTree.fromstring(files[1].read_text()).tag.endswith("svg"))
        self.assertIn("DDP, 4 passes, no_sync", files[0].read_text())

    @second_try.whole_only
    def test_more_ranks_than_cores_are_said(self):
        ranks = len(os.sched_getaffinity(0)) + 1
        done = bench(
            "scaling",
            "--devices",
            ranks,
            "--ways",
            "ddp",
            "--rounds",
            "1",
            "--duration",
            "2s",
            "--batch-size",
            ranks,
            "--json",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertIn("share cores", done.stderr)
        self.assertTrue(report["rows"][-1]["too_few_cores"])
        self.assertEqual(report["fit"]["expected_weak"], [])
        self.assertTrue(
            any("more virtual GPUs than this machine has cores" in note for note in report["notes"])
        )

    @second_try.whole_only
    def test_the_published_presets(self):
        done = bench("presets", "--rounds", "1", "--duration", "3s", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.follows_schema(done.stdout)
        self.assertEqual(
            [
                (
                    row["title"],
                    row["devices"],
                    row["batch"],
                    row["accumulation"],
                    row["published_minutes"],
                )
                for row in report["rows"]
            ],
            [
                ("single", 1, 4, 4, 16),
                ("old DDP", 2, 2, 4, 15),
                ("standard", 2, 4, 2, 12),
                ("fast", 2, 8, 1, 10),
            ],
        )
        self.assertGreater(report["rows"][3]["epoch_s"], 0)

    def script(self):
        if not os.path.exists(PYTHON):
            self.skipTest(
                "torch is not in the cache's virtual environment; scripts/setup --tests does that"
            )
        path = self.folder / "train.py"
        path.write_text(SCRIPT)
        os.environ["PYTHON_EXEC"] = PYTHON
        return path

    def test_a_users_script_on_one_and_two(self):
        done = bench(
            "scaling",
            "--devices",
            "1,2",
            "--rounds",
            "1",
            "--steps",
            "100",
            "--json",
            "--",
            self.script(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.follows_schema(done.stdout)
        self.assertEqual((report["subject"], report["unit"]), ("train.py", "samples/s"))
        self.assertEqual([row["devices"] for row in report["rows"]], [1, 2])
        self.assertTrue(
            all(row["speed"] > 0 and row["step_ms"] > 0 for row in report["rows"]), report["rows"]
        )

    @second_try.whole_only
    def test_presets_are_given_to_a_script(self):
        done = bench("presets", "--rounds", "1", "--steps", "60", "--json", "--", self.script())
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual([row["batch"] for row in report["rows"]], [4, 2, 4, 8])
        self.assertIn("--gradient_accumulation_steps", report["rows"][1]["command"])

    def test_a_script_that_fails_is_named_with_its_last_words(self):
        path = self.script()
        path.write_text("raise SystemExit('no data here')\n")
        done = bench("scaling", "--devices", "1,2", "--rounds", "1", "--", path)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no data here", done.stderr)
        self.assertIn("run it alone: lockstep launch", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_mistakes_are_refused_before_anything_runs(self):
        for words, what in (
            (["sideways"], "sideways"),
            (["scaling", "--devices", "1,x"], "'x'"),
            (["scaling", "--ways", "dpp"], "did you mean ddp"),
            (["scaling", "-o", "table.xls"], ".svg"),
            (["scaling", "--buckets", "0"], "megabytes"),
            (["scaling", "--accumulation", "3"], "divided"),
            (["scaling", "--model", "nothing"], "nothing"),
            (["scaling", "-o", "/nowhere/x.svg"], "folder"),
        ):
            done = bench(*words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn(what, done.stderr, words)


if __name__ == "__main__":
    second_try.main()
