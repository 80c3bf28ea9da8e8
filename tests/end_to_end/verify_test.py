#!/usr/bin/env python3
"""lockstep fix --verify with real PyTorch: a loader that sleeps as a disk does is proven to be helped by workers, a patch that brings nothing is said to
bring nothing, and the project stays as it is until --apply."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TORCH = os.environ["LOCKSTEP_TORCH"]

if not os.path.exists(os.path.join(TORCH, "bin", "python")):
    print(f"skipped: no PyTorch in {TORCH}; scripts/setup --tests installs it")
    sys.exit(77)

# Reading takes 10 ms a sample, and no processor: whatever else the machine does, four readers are
# faster than one.
SCRIPT = """import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((8,), float(index))


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Slow(), batch_size=4)
    for x in loader:
        loss = model(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
"""


class Verify(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "project"
        self.tree.mkdir()
        self.script = self.tree / "train.py"
        self.script.write_text(SCRIPT)
        self.environment = {
            **os.environ,
            "PATH": f"{TORCH}/bin:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "XDG_STATE_HOME": str(pathlib.Path(folder.name) / "state"),
        }

    def verify(self, *words, command=("python", "train.py")):
        return subprocess.run(
            [LOCKSTEP, "fix", ".", "--verify", *words, "--", *command],
            cwd=self.tree,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )

    @second_try.whole_only
    def test_workers_are_proven_to_help_and_written_only_with_apply(self):
        shown = self.verify("--unsafe", "--select", "D202", "--rounds", "2")
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertIn("it helped: ", shown.stdout)
        self.assertIn("samples/s", shown.stdout)
        self.assertIn("write it: lockstep fix --apply --unsafe .", shown.stdout)
        self.assertEqual(self.script.read_text(), SCRIPT)
        # the runs' own files are gone with the copies
        self.assertFalse((self.tree / "model.pt").exists())

        written = self.verify("--unsafe", "--apply", "--select", "D202", "--rounds", "2")
        self.assertEqual(written.returncode, 0, written.stdout + written.stderr)
        self.assertIn("num_workers=4", self.script.read_text())

    @second_try.whole_only
    def test_what_was_applied_is_measured_against_what_it_was(self):
        written = self.verify("--unsafe", "--apply", "--select", "D202", "--rounds", "2")
        self.assertEqual(written.returncode, 0, written.stdout + written.stderr)
        # Nothing is left to patch: what was applied is measured against what it was.
        again = self.verify("--select", "D202", "--rounds", "2")
        self.assertIn("before the last --apply", again.stdout, again.stderr)

    @second_try.whole_only
    def test_each_patch_has_its_step_of_the_ladder(self):
        done = self.verify("--unsafe", "--each", "--select", "D202,D203", "--rounds", "2", "--json")
        report = json.loads(done.stdout)
        variants = report["verification"]["variants"]
        self.assertEqual(
            [variant["title"].split(" ")[0] for variant in variants],
            ["as", "D202", "D203"],
            done.stderr,
        )
        self.assertEqual(report["verification"]["measured_by"], "samples")
        self.assertTrue(all(variant["command"] == ["python", "train.py"] for variant in variants))
        self.assertGreater(variants[1]["speedup"], 1.8)
        self.assertGreater(variants[2]["speedup"], 1.8)  # cumulative

    @second_try.whole_only
    def test_a_patch_that_brings_nothing_is_not_called_a_help(self):
        done = self.verify("--unsafe", "--select", "D203", "--rounds", "3")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("not shown to help", done.stdout)
        self.assertIn("nothing was written", done.stdout)

    def test_a_command_that_fails_ends_it_with_its_last_words(self):
        done = self.verify("--unsafe", command=("python", "-c", "raise SystemExit('no such data')"))
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("no such data", done.stderr)
        self.assertIn("as it is: the command ended with code 1", done.stderr)


if __name__ == "__main__":
    second_try.main()
