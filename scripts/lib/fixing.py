"""lockstep fix against ruff and TorchFix on one tree of Python files."""

import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import launching

FILES = 10_000
SAMPLE = 200  # what TorchFix is given: it takes too long for all

SCRIPT = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2", device_map="auto")
args = TrainingArguments(output_dir="out", logging_steps=1, evaluation_strategy="no")
trainer = Trainer(model=model, args=args)
trainer.train()
"""


def real_files(environment):
    """Python files of torch and Transformers, as people write them: half a screen to ten thousand
    lines.
    """
    folder = next(pathlib.Path(environment).glob("lib/python3*/site-packages"))
    for package in ("transformers", "torch", "accelerate"):
        for file in sorted((folder / package).rglob("*.py")):
            if 100 < file.stat().st_size < 1_000_000:
                yield file


def make_tree(root, environment):
    """FILES files, each as it is, repeated when there are too few; one in a hundred is a training
    script with faults.
    """
    sources = list(real_files(environment))
    size = 0
    for number in range(FILES):
        folder = root / f"part{number // 200:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"file{number:05d}.py"
        if number % 100 == 0:
            target.write_text(SCRIPT)
        else:
            shutil.copyfile(sources[number % len(sources)], target)
        size += target.stat().st_size
    return size, len(sources)


def bench_fix(lockstep, environment, peers, rounds):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        size, different = make_tree(root / "tree", environment)
        sample = root / "sample"
        sample.mkdir()
        for file in sorted((root / "tree").rglob("*.py"))[:: FILES // SAMPLE]:
            shutil.copyfile(file, sample / file.name)
        script = root / "train.py"
        script.write_text(SCRIPT)
        around = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", XDG_STATE_HOME=str(root / "state"))
        ruff, torchfix = f"{peers}/ruff", f"{peers}/torchfix"
        quietly = lambda command: ["sh", "-c", '"$@" >/dev/null 2>&1; exit 0', "sh"] + command
        programs = {
            f"lockstep fix, {FILES} files": [lockstep, "fix", str(root / "tree")],
            f"ruff check, {FILES} files": [
                ruff,
                "check",
                "--no-cache",
                "--isolated",
                str(root / "tree"),
            ],
            f"lockstep fix, {SAMPLE} files": [lockstep, "fix", str(sample)],
            f"TorchFix, {SAMPLE} files": [torchfix, "--select", "ALL", str(sample)],
            "lockstep fix, one script": [lockstep, "fix", str(script)],
            "ruff check, one script": [ruff, "check", "--no-cache", "--isolated", str(script)],
            "TorchFix, one script": [torchfix, "--select", "ALL", str(script)],
        }
        programs = {
            name: command for name, command in programs.items() if os.path.exists(command[0])
        }
        seen = {name: [] for name in programs}
        for command in programs.values():
            if "TorchFix" not in command[0]:
                launching.one_start(quietly(command), around)  # the disk's cache is warm for all
        for _ in range(rounds):
            for name, command in programs.items():
                seen[name].append(launching.one_start(quietly(command), around))
        medians = {
            name: [statistics.median(column) for column in zip(*values)]
            for name, values in seen.items()
        }
        print(
            f"\n{FILES} Python files, {size / 1e6:.0f} MB, {different} of them different ({os.cpu_count()} cores, medians of {rounds})"
        )
        for name, (wall, cpu, memory) in medians.items():
            print(
                f"  {name:30} {wall * 1e3:10.1f} ms wall {cpu * 1e3:10.1f} ms CPU {memory:8.1f} MiB"
            )
        whole, alone = medians[f"lockstep fix, {FILES} files"], medians["lockstep fix, one script"]
        print(f"  goal {'met' if whole[0] < 20 else 'MISSED'}: {FILES} files in under 20 s")
        print(f"  goal {'met' if alone[0] < 0.02 else 'MISSED'}: under 20 ms for a file")
        for peer, ours in (("ruff check", FILES), ("TorchFix", SAMPLE)):
            if f"{peer}, {ours} files" in medians:
                ratio = (
                    medians[f"{peer}, {ours} files"][0] / medians[f"lockstep fix, {ours} files"][0]
                )
                print(f"  {peer} takes {ratio:.2f} x lockstep's wall time on {ours} files")
