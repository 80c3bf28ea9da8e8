#!/usr/bin/env python3
"""lockstep fix with the real thing: a running script on virtual GPUs that is diagnosed, patched from the report and found
healthy in the code; and a script that real Transformers refuses, patched, and trained by two ranks."""

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
PYTHON = os.path.join(TORCH, "bin", "python")

# Two threads compute in turns, as the parts of a split model do, and are registered as the
# trainer's are. The training code
# is what a reader of the file sees; it is not reached.
TURNS = """import json, os, sys, threading, time

END = time.monotonic() + 20


def part(index, tids):
    tids[index] = threading.get_native_id()
    while time.monotonic() < END:
        turn = int(time.monotonic() * 2) % 2
        if turn == index:
            sum(i * i for i in range(2000))
        else:
            time.sleep(0.005)


def register(tids):
    folder = os.path.join(os.environ["XDG_RUNTIME_DIR"], "lockstep")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"vgpu-{os.getpid()}.json")
    with open(path + ".new", "w") as out:
        json.dump({"pid": os.getpid(), "gpus": [{"index": i, "memory_bytes": 1 << 30, "tid": t} for i, t in tids.items()]}, out)
    os.rename(path + ".new", path)


def train():
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")
    args = TrainingArguments(output_dir="out", bf16=True, dataloader_num_workers=2)
    trainer = Trainer(model=model, args=args)
    trainer.train()


if __name__ == "__main__":
    if "--train" in sys.argv:
        train()
    tids = {}
    threads = [threading.Thread(target=part, args=(i, tids)) for i in range(2)]
    for thread in threads:
        thread.start()
    while len(tids) < 2:
        time.sleep(0.01)
    register(tids)
    for thread in threads:
        thread.join()
"""

# A tiny model made on the spot; nothing is downloaded. evaluation_strategy and no_cuda are names of
# old.
TRAIN = """import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        ids = torch.arange(8) + index % 4
        return {"input_ids": ids, "labels": ids}


def main():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2))
    args = TrainingArguments(
        output_dir=sys.argv[1],
        per_device_train_batch_size=2,
        max_steps=2,
        evaluation_strategy="no",  # as it was called
        no_cuda=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Words())
    trainer.train()
    print("trained with", args.world_size, "ranks", flush=True)


if __name__ == "__main__":
    main()
"""


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


class Fix(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tree = pathlib.Path(self.folder.name) / "project"
        self.tree.mkdir()
        self.state = pathlib.Path(self.folder.name) / "state"
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(self.state),
            "XDG_RUNTIME_DIR": self.folder.name,
        }

    def lockstep(self, *words):
        return run([LOCKSTEP, *words], cwd=self.tree, env=self.environment)

    def test_a_running_script_gets_its_lines_and_its_patch_into_the_report(self):
        script = self.tree / "train.py"
        script.write_text(TURNS)
        report_file = pathlib.Path(self.folder.name) / "report.json"
        done = self.lockstep(
            "diagnose",
            "virtual:2",
            "--json",
            "-o",
            str(report_file),
            "--stop-after",
            "--",
            sys.executable,
            "train.py",
        )
        report = json.loads(report_file.read_text())
        self.assertEqual(report["verdict"]["pattern"], "taking-turns", done.stderr)
        finding = next(finding for finding in report["findings"] if finding["code"] == "P101")
        self.assertEqual(
            [pathlib.Path(place["file"]).name for place in finding["where"]], ["train.py"]
        )
        self.assertEqual(
            finding["where"][0]["line"], TURNS[: TURNS.index("device_map")].count("\n") + 1
        )
        self.assertIn(
            '-    model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")',
            finding["fixes"][0]["diff"],
        )

        applied = self.lockstep("fix", "--from", str(report_file), "--apply", "--unsafe")
        self.assertEqual(applied.returncode, 0, applied.stderr)
        self.assertIn('from_pretrained("gpt2")', script.read_text())
        self.assertEqual(self.lockstep("fix", "--undo").returncode, 0)
        self.assertEqual(script.read_text(), TURNS)

    def test_what_transformers_refuses_is_patched_and_trains_with_two_ranks(self):
        if (
            not (pathlib.Path(TORCH) / ".installed").exists()
            or "transformers" not in (pathlib.Path(TORCH) / ".installed").read_text()
        ):
            self.skipTest("no Transformers here: scripts/setup --tests installs it")
        script = self.tree / "train.py"
        script.write_text(TRAIN)
        (self.tree / "run.sh").write_text("#!/bin/bash\npython train.py out\n")
        (self.tree / ".venv").symlink_to(TORCH)  # the version is read from its site-packages
        refused = run([PYTHON, "train.py", "out"], cwd=self.tree, env=self.environment)
        self.assertIn("unexpected keyword argument", refused.stderr)

        applied = self.lockstep(
            "fix", "--apply", "--unsafe", "--ignore", "D202,B503", "--gpus", "2", "."
        )
        self.assertEqual(applied.returncode, 0, applied.stderr)
        self.assertIn('        eval_strategy="no",  # as it was called\n', script.read_text())
        self.assertIn("use_cpu=True", script.read_text())
        line = (self.tree / "run.sh").read_text().splitlines()[1]
        self.assertEqual(line, "torchrun --standalone --nproc_per_node=2 train.py out")

        path = f"{TORCH}/bin:{os.environ['PATH']}"
        for _ in range(
            2
        ):  # a rank of torch 2.11 over Gloo now and then aborts at its very end, without any of us in it
            trained = run(
                ["bash", "run.sh"],
                cwd=self.tree,
                env={**self.environment, "PATH": path, "OMP_NUM_THREADS": "1"},
            )
            if trained.returncode == 0 or "exitcode: -6" not in trained.stderr:
                break
        self.assertEqual(trained.returncode, 0, trained.stderr[-2000:])
        self.assertEqual(trained.stdout.count("trained with 2 ranks"), 2, trained.stdout)


if __name__ == "__main__":
    second_try.main()
