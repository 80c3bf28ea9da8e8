#!/usr/bin/env python3
"""What `lockstep plan --emit` writes, read by the real thing: accelerate's loader, transformers' TrainingArguments, shellcheck, `sbatch --test-only` on a slurmctld of our own, JSON schemas.

usage: plan_test.py [-v] [TEST...]   each part is skipped, with its reason, where its reader is not installed
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
import slurm_cluster

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin/python")
PEERS = os.path.join(os.environ["LOCKSTEP_PEERS"], "bin/python")

PLANS = {
    "one GPU": ["--gpus", "1xA100-80GB", "--model", "gpt2"],
    "ddp": ["--gpus", "4xA100-80GB", "--model", "gpt2-xl"],
    "ddp in fp16": ["--gpus", "4xV100-32GB", "--model", "bert-base"],
    "ddp with checkpointing": [
        "--gpus",
        "2xA100-40GB",
        "--model",
        "gpt2-xl",
        "--activation-checkpointing",
        "on",
        "--strategy",
        "ddp",
    ],
    "zero2": ["--gpus", "8xA100-80GB", "--model", "gpt2-xl", "--strategy", "zero2"],
    "fsdp": ["--gpus", "8xH100-80GB", "--model", "llama-8b"],
    "fsdp on two nodes": [
        "--gpus",
        "8xH100-80GB",
        "--nodes",
        "2",
        "--model",
        "llama-8b",
        "--strategy",
        "fsdp",
    ],
    "hybrid": [
        "--gpus",
        "8xH100-80GB",
        "--nodes",
        "2",
        "--model",
        "llama-8b",
        "--strategy",
        "hybrid-fsdp",
    ],
    "offload": ["--gpus", "2x24GB", "--model", "phi-3-mini", "--strategy", "offload"],
    "split": ["--gpus", "2xA100-80GB", "--model", "gpt2-xl", "--strategy", "model-split"],
}

# Without a GPU transformers refuses bf16 and TF32; everything else is its own judgement.
READ_ARGUMENTS = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import transformers.training_args as module
for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available"):
    setattr(module, name, lambda *_: True)
from transformers import HfArgumentParser, TrainingArguments
for path in sys.argv[1:]:
    (read,) = HfArgumentParser(TrainingArguments).parse_json_file(path)
    print(json.dumps({"batch": read.per_device_train_batch_size, "accumulation": read.gradient_accumulation_steps, "bf16": read.bf16, "checkpointing": read.gradient_checkpointing, "fsdp": bool(read.fsdp)}))
"""
READ_ACCELERATE = """
import json, sys, warnings
warnings.filterwarnings("ignore")
from accelerate.commands.config.config_args import load_config_from_file
for path in sys.argv[1:]:
    read = load_config_from_file(path)
    print(json.dumps({"type": read.distributed_type.value, "processes": read.num_processes, "machines": read.num_machines, "precision": str(read.mixed_precision)}))
"""
READ_MANIFESTS = """
import json, sys
import jsonschema, yaml
schema = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))
for path in sys.argv[2:]:
    problems = [f"{path}: {list(error.absolute_path)}: {error.message}" for error in schema.iter_errors(yaml.safe_load(open(path)))]
    assert not problems, problems
"""


def emitted(kind, words, script=("train.py", "--lr", "1e-4")):
    done = subprocess.run(
        [LOCKSTEP, "plan", *words, "--emit", kind, "--", *script], capture_output=True, text=True
    )
    assert done.returncode == 0, (kind, words, done.stderr)
    return done.stdout


def planned(words):
    return json.loads(
        subprocess.run(
            [LOCKSTEP, "plan", *words, "--json"], capture_output=True, text=True, check=True
        ).stdout
    )["choice"]


def has(python, *modules):
    return (
        os.path.exists(python)
        and subprocess.run(
            [python, "-c", "import " + ",".join(modules)], capture_output=True
        ).returncode
        == 0
    )


class Emitted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def files(self, kind, names, ending):
        paths = []
        for name in names:
            path = self.folder / (name.replace(" ", "-") + ending)
            path.write_text(emitted(kind, PLANS[name]))
            paths.append(str(path))
        return paths

    def test_accelerate_loads_its_files(self):
        if not has(TORCH, "accelerate"):
            self.skipTest("accelerate is not installed; scripts/setup --tests does that")
        done = subprocess.run(
            [TORCH, "-c", READ_ACCELERATE, *self.files("accelerate", PLANS, ".yaml")],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        read = dict(zip(PLANS, map(json.loads, done.stdout.splitlines())))
        self.assertEqual(
            {name: row["type"] for name, row in read.items()},
            {
                "one GPU": "NO",
                "ddp": "MULTI_GPU",
                "ddp in fp16": "MULTI_GPU",
                "ddp with checkpointing": "MULTI_GPU",
                "zero2": "DEEPSPEED",
                "fsdp": "FSDP",
                "fsdp on two nodes": "FSDP",
                "hybrid": "FSDP",
                "offload": "FSDP",
                "split": "NO",
            },
        )
        self.assertEqual(read["fsdp on two nodes"]["processes"], 16)
        self.assertEqual(read["fsdp on two nodes"]["machines"], 2)
        self.assertEqual(read["ddp in fp16"]["precision"], "fp16")

    def test_transformers_takes_its_arguments(self):
        if not has(TORCH, "transformers"):
            self.skipTest("transformers is not installed; scripts/setup --tests does that")
        # TrainingArguments wants DeepSpeed itself for that
        names = [name for name in PLANS if name != "zero2" or has(TORCH, "deepspeed")]
        done = subprocess.run(
            [TORCH, "-c", READ_ARGUMENTS, *self.files("training-arguments", names, ".json")],
            capture_output=True,
            text=True,
            cwd=self.folder,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        for name, line in zip(names, done.stdout.splitlines()):
            read, choice = json.loads(line), planned(PLANS[name])
            self.assertEqual(
                (read["batch"], read["accumulation"]),
                (choice["micro_batch"], choice["accumulation"]),
                name,
            )
            self.assertEqual(read["bf16"], name != "ddp in fp16", name)
            self.assertEqual(
                read["fsdp"], choice["strategy"] in ("fsdp", "hybrid-fsdp", "offload"), name
            )

    def test_deepspeed_files_add_up(self):
        for name in PLANS:
            config = json.loads(emitted("deepspeed", PLANS[name]))
            choice = planned(PLANS[name])
            self.assertEqual(
                config["train_batch_size"],
                config["train_micro_batch_size_per_gpu"]
                * config["gradient_accumulation_steps"]
                * choice["replicas"],
                name,
            )

    def test_shells_read_job_files_and_lines(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed; scripts/setup --tests does that")
        scripts = self.files("sbatch", PLANS, ".sbatch")
        for kind in ("torchrun", "launch"):
            for name in PLANS:
                path = self.folder / f"{kind}-{name.replace(' ', '-')}.sh"
                path.write_text(
                    "#!/bin/bash\nHEAD_NODE=a\nJOB_ID=b\nexport HEAD_NODE JOB_ID\n"
                    + emitted(kind, PLANS[name], ("a script's name.py", "--text", '$HOME "x"'))
                )
                scripts.append(str(path))
        done = subprocess.run(
            ["shellcheck", "--severity=warning", *scripts], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_slurm_would_start_the_jobs(self):
        if why := slurm_cluster.why_not():
            self.skipTest(why)
        with slurm_cluster.Slurm(self.folder) as slurm:
            for path in self.files("sbatch", PLANS, ".sbatch"):
                done = slurm.run("sbatch", "--test-only", path)
                self.assertEqual(done.returncode, 0, (path, done.stderr))
                self.assertIn("to start at", done.stderr)
            too_many = pathlib.Path(self.files("sbatch", ["fsdp"], ".sbatch")[0])
            too_many.write_text(too_many.read_text().replace("gpu:8", "gpu:9"))
            self.assertNotEqual(
                slurm.run("sbatch", "--test-only", str(too_many)).returncode,
                0,
                "the controller would have started anything",
            )

    def test_manifests_have_the_shape_of_their_kinds(self):
        if not has(PEERS, "jsonschema", "yaml"):
            self.skipTest("jsonschema and yaml are not installed; scripts/setup --tests does that")
        for kind in ("pytorchjob", "trainjob", "azureml"):
            done = subprocess.run(
                [
                    PEERS,
                    "-c",
                    READ_MANIFESTS,
                    os.path.join(HERE, "manifests", kind + ".schema.json"),
                    *self.files(kind, PLANS, ".yaml"),
                ],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stderr[-1500:])


if __name__ == "__main__":
    second_try.main()
