"""What a probe owes to the program that it is in: the same output, files and warnings, and a word
where it cannot look. Nothing here is timed.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

BINARY = os.environ["LOCKSTEP_BINARY"]
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")
PYTHON = os.path.join(TORCH, "python")

if not os.path.exists(PYTHON):
    print(f"skipped: no torch in {TORCH}; scripts/setup --tests makes it")
    sys.exit(77)


class ProbeInAProcess(unittest.TestCase):
    """Promises to the program that is probed."""

    def profile(self, *words, environment=None, code=None):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (code or {}).items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return subprocess.run(
                [BINARY, "profile", *words],
                cwd=folder,
                env=dict(os.environ, **(environment or {})),
                capture_output=True,
                text=True,
                timeout=100,
            )

    def test_without_torch_it_is_silent(self):
        run = self.profile("--", PYTHON, "-c", "print('hello')")
        self.assertEqual(run.returncode, 3)
        self.assertIn("no Python process with torch answered", run.stdout)

    def test_none_leaves_the_environment_alone(self):
        code = {
            "show.py": "import os\nprint([n for n in os.environ if 'LOCKSTEP_PROBE' in n], os.environ.get('LD_PRELOAD'))\n"
        }
        run = self.profile("--probe", "none", "--", PYTHON, "show.py", code=code)
        self.assertIn("[] None", run.stderr)

    def test_ctrl_c_behind_a_collection_is_not_lost(self):
        code = {
            "a.py": """
import gc, os, signal, threading, time
import torch

net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = [[i] for i in range(200_000)]  # a collection takes most of a step
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        gc.collect()
    print("lost")
except KeyboardInterrupt:
    print("interrupted")
"""
        }
        run = self.profile("--", PYTHON, "a.py", code=code)
        self.assertIn("interrupted", run.stderr)
        self.assertNotIn("Exception ignored", run.stderr)

    def test_the_users_own_sitecustomize_still_runs(self):
        code = {"sitecustomize.py": "print('mine')\n", "a.py": "print('program')\n"}
        run = self.profile("--", PYTHON, "a.py", code=code, environment={"PYTHONPATH": "."})
        self.assertIn("mine", run.stderr)
        self.assertIn("program", run.stderr)

    def test_a_model_is_saved_whole_and_values_and_prints_are_as_ever(self):
        code = {
            "a.py": "import torch, copy\nm = torch.nn.Linear(4, 4)\no = torch.optim.SGD(m.parameters(), 0.1)\n"
            "def main():\n    for i in range(30):\n        loss = m(torch.ones(2, 4)).sum()\n        loss.backward()\n        o.step()\n        o.zero_grad()\n"
            "    torch.save(m, 'whole.pt')\n    copy.deepcopy(m)\n    torch.load('whole.pt', weights_only=False)\n    print('value', bool(torch.tensor(True)), torch.tensor([1.5]).item(), torch.tensor([1, 2]).tolist())\nmain()\n"
        }
        run = self.profile("--", PYTHON, "a.py", code=code)
        self.assertIn("value True 1.5 [1, 2]", run.stderr)
        self.assertNotIn("Traceback", run.stderr)

    def test_a_folder_that_is_gone_is_said_once_and_the_program_runs(self):
        code = {
            "a.py": "import torch\nm = torch.nn.Linear(4, 4)\no = torch.optim.SGD(m.parameters(), 0.1)\nfor i in range(30):\n    m(torch.ones(2, 4)).sum().backward()\n    o.step()\nprint('done')\n"
        }
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.py"), "w", encoding="utf-8") as file:
                file.write(code["a.py"])
            probe = os.path.join(
                os.path.dirname(os.path.dirname(BINARY)), "lib", "lockstep", "python"
            )
            run = subprocess.run(
                [PYTHON, "a.py"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=100,
                env=dict(
                    os.environ,
                    PYTHONPATH=probe,
                    LOCKSTEP_PROBE="python",
                    LOCKSTEP_PROBE_FOLDER=os.path.join(folder, "missing"),
                ),
            )
        self.assertIn("done", run.stdout)
        self.assertEqual(run.stderr.count("lockstep: the Python probe stops"), 1, run.stderr)
        self.assertEqual(run.returncode, 0)

    def test_trainer_is_profiled_unmodified(self):
        code = {
            "a.py": "import torch\nfrom transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments\n\n\nclass Rows(torch.utils.data.Dataset):\n    def __len__(self):\n        return 1000\n\n"
            "    def __getitem__(self, i):\n        x = torch.full((32,), i % 50)\n        return {'input_ids': x, 'labels': x}\n\n\n"
            "m = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=100))\n"
            "a = TrainingArguments(output_dir='o', max_steps=40, per_device_train_batch_size=4, logging_steps=1, save_strategy='no', report_to=[], use_cpu=True)\n"
            "Trainer(model=m, args=a, train_dataset=Rows()).train()\n"
        }
        run = self.profile("--json", "--", PYTHON, "a.py", code=code)
        steps = json.loads(run.stdout)["steps"]
        shares = {part["name"]: part["share"] for part in steps["parts"]}
        self.assertGreater(steps["count"], 20)
        self.assertGreater(shares["forward"], 0.1)
        self.assertGreater(shares["backward"], 0.1)
        self.assertGreater(shares["logging"], 0)

    def test_a_loop_that_ends_in_if_is_seen_to_its_end(self):
        """From CPython 3.11 on its back jump has no line: f_lineno is None."""
        code = {
            "a.py": "import torch\nmodel = torch.nn.Linear(256, 256)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
            "seen = []\nfor step in range(150):\n    model(torch.ones(64, 256)).sum().backward()\n    optimizer.step()\n"
            "    optimizer.zero_grad()\n    if step % 2:\n        for i in range(200000):\n            if i % 3 == 7:\n                seen.append(i)\n"
        }
        run = self.profile("--json", "--", PYTHON, "a.py", code=code)
        self.assertGreaterEqual(json.loads(run.stdout)["steps"]["count"], 118)  # but for warm-up
        self.assertNotIn("the Python probe stops", run.stderr)

    def test_a_probe_that_stops_is_said_and_nobody_calls_the_run_healthy(self):
        code = {
            "a.py": "import time, torch\nmodel = torch.nn.Linear(256, 256)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
            "for step in range(80):\n    model(torch.ones(64, 256)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n    time.sleep(0.02)\n"
            "    if step == 40:\n        from lockstep_probe import recorder\n        recorder.give_up(RuntimeError('on purpose'), 'a test')\n"
        }
        run = self.profile("--", PYTHON, "a.py", code=code)
        self.assertIn("the Python probe of rank 0 stopped after", run.stdout)
        self.assertIn("RuntimeError: on purpose", run.stdout)
        if "1. " not in run.stdout:
            self.assertIn("no findings in what was seen: a probe broke off", run.stdout)

    def test_a_program_that_takes_warnings_for_errors_lives(self):
        code = {
            "a.py": "import torch\nfrom tqdm import tqdm\nmodel = torch.nn.Linear(64, 64)\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
            "for step in tqdm(range(60)):\n    model(torch.ones(64, 64)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\nprint('done')\n"
        }
        run = self.profile(
            "--json",
            "--",
            PYTHON,
            "-W",
            "error::UserWarning",
            "-W",
            "error::FutureWarning",
            "a.py",
            code=code,
        )
        self.assertGreater(json.loads(run.stdout)["steps"]["count"], 40)
        self.assertNotIn("the Python probe stops", run.stderr)

    @second_try.whole_only
    def test_odd_programs_print_the_same_with_the_probe_and_without(self):
        script = os.path.join(
            os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes", "odd_programs.py"
        )
        probe = os.path.join(os.path.dirname(os.path.dirname(BINARY)), "lib", "lockstep", "python")
        for program, loader in (
            ("identities", None),
            ("compiled", None),
            ("order", None),
            ("order", "batches=20,tune=0"),
            ("child", None),
        ):
            with (
                self.subTest(program=program, loader=loader),
                tempfile.TemporaryDirectory() as folder,
            ):
                probed = dict(
                    os.environ,
                    PYTHONPATH=probe,
                    LOCKSTEP_PROBE="python",
                    LOCKSTEP_PROBE_FOLDER=folder,
                    **({"LOCKSTEP_PROBE_LOADER": loader} if loader else {}),
                )
                ends = [
                    subprocess.run(
                        [PYTHON, "-W", "ignore::DeprecationWarning", script, program],
                        cwd=folder,
                        env=environment,
                        capture_output=True,
                        text=True,
                        timeout=100,
                    )
                    for environment in (os.environ, probed)
                ]
                self.assertEqual(ends[0].returncode, 0, ends[0].stderr)
                self.assertEqual(
                    (ends[1].returncode, ends[1].stdout), (0, ends[0].stdout), ends[1].stderr
                )
                self.assertNotIn("lockstep:", ends[1].stderr)
                self.assertTrue(
                    [name for name in os.listdir(folder) if name.endswith(".ring")],
                    "the probe was there",
                )

    @second_try.whole_only
    def test_lightning_is_profiled_unmodified_and_its_loggers_are_no_checkpoints(self):
        code = {
            "a.py": "import torch\nimport lightning\nfrom lightning.pytorch.loggers import CSVLogger\nfrom torch.utils.data import DataLoader, TensorDataset\n\n\nclass Model(lightning.LightningModule):\n    def __init__(self):\n        super().__init__()\n"
            "        self.net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))\n\n    def training_step(self, batch, index):\n        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])\n"
            "        self.log('loss', loss)\n        return loss\n\n    def configure_optimizers(self):\n        return torch.optim.SGD(self.parameters(), 0.01)\n\n\n"
            "rows = DataLoader(TensorDataset(torch.randn(3200, 64), torch.zeros(3200, dtype=torch.long)), batch_size=16)\n"
            "lightning.Trainer(max_epochs=2, accelerator='cpu', logger=CSVLogger('logs'), log_every_n_steps=1, enable_checkpointing=False, enable_progress_bar=False).fit(Model(), rows)\n"
        }
        run = self.profile("--json", "--", PYTHON, "a.py", code=code)
        report = json.loads(run.stdout)
        shares = {part["name"]: part["share"] for part in report["steps"]["parts"]}
        self.assertGreater(report["steps"]["count"], 200)
        self.assertGreater(shares["forward"], 0.05)
        self.assertGreater(shares["backward"], 0.05)
        self.assertGreater(shares["logging"], 0.05, "a file opened and written in each step")
        self.assertLess(shares["checkpoint"], 0.02)
        self.assertIn("S302", [finding["code"] for finding in report["findings"]])

    @second_try.whole_only
    def test_what_people_log_with_is_named_by_its_line(self):
        code = {
            "a.py": "import csv\nimport torch\nfrom tensorboardX import SummaryWriter\nfrom tqdm import tqdm\n\nm = torch.nn.Linear(256, 256)\no = torch.optim.SGD(m.parameters(), 0.1)\n\n\ndef main():\n    board = SummaryWriter('board')\n"
            "    table = csv.writer(open('table.csv', 'w'))\n    for step in tqdm(range(150), mininterval=0):\n        m(torch.randn(64, 256)).sum().backward()\n        o.step()\n        o.zero_grad()\n"
            "        for name in range(20):\n            board.add_scalar(f'x{name}', step, step)\n        table.writerows([[step] * 50] * 20)\n\n\nmain()\n"
        }
        run = self.profile("--json", "--", PYTHON, "a.py", code=code)
        logging = next(
            part for part in json.loads(run.stdout)["steps"]["parts"] if part["name"] == "logging"
        )
        logged = {place["what"]: place["line"] for place in logging["where"]}
        self.assertEqual(logged.get("SummaryWriter.add_scalar"), 18)
        self.assertEqual(logged.get("csv.writerows"), 19)
        self.assertEqual(logged.get("tqdm"), 13)

    @second_try.whole_only
    def test_the_loader_alone_is_told_from_the_step(self):
        code = {
            "a.py": "import time, torch\nfrom torch.utils.data import DataLoader, Dataset\n\n\nclass Slow(Dataset):\n    def __len__(self):\n        return 10000\n\n    def __getitem__(self, i):\n        time.sleep(0.002)\n        return torch.randn(64)\n\n\n"
            "m = torch.nn.Linear(64, 64)\no = torch.optim.SGD(m.parameters(), 0.1)\n\n\ndef main():\n    for n, x in enumerate(DataLoader(Slow(), batch_size=4, num_workers=1)):\n"
            "        m(x).sum().backward()\n        o.step()\n        o.zero_grad()\n        time.sleep(0.004)\n        if n == 120:\n            break\n\n\nmain()\n"
        }
        run = self.profile("--json", "--dataloader", "--tune", "--", PYTHON, "a.py", code=code)
        answer = json.loads(run.stdout)["dataloader"]
        self.assertTrue(answer["loading_is_slow"], answer)
        self.assertGreater(answer["alone"]["batch_ms"], 7)
        self.assertTrue(answer["tried"])
        self.assertIn(answer["enough_workers"], (2, 4))
        self.assertGreaterEqual(answer["enough_prefetch"], 2)


if __name__ == "__main__":
    second_try.main()
