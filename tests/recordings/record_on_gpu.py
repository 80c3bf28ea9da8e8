"""Makes the recordings of this folder, on a machine with a GPU. usage: record_on_gpu.py LOCKSTEP PYTHON FOLDER [NAME...]

Six ways to train, by lockstep-train and by plain PyTorch (train_with_pytorch.py): each runs by itself and is watched for six
seconds (checkpoints for sixteen). Commands and names are left out of the files (--redact).
"""

import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GPT2 = [
    "--device",
    "cuda",
    "--model",
    "gpt2-124M",
    "--sequence-length",
    "1024",
    "--batch-size",
    "16",
    "--precision",
    "bf16",
    "--workers",
    "4",
    "--dataset-size",
    "100000",
    "--steps",
    "100000",
    "--log-every",
    "50",
    "--resume",
    "never",
    "--no-step-marks",
]
TRAINER = {
    "healthy": [],
    "starved": ["--loader-delay", "150ms", "--workers", "2"],
    "sync": ["--fault", "sync-each-step"],
    "launch-bound": ["--fault", "launch-bound"],
    "checkpoint": ["--fault", "checkpoint-often"],
    "fp32": ["--fault", "fp32"],
}


def record(lockstep, name, line, folder):
    program = subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    time.sleep(11 if "python" in line[0] else 9)
    if program.poll() is not None:
        print(name, "ended by itself:", program.stderr.read().decode()[-600:], flush=True)
        return
    seconds = "16s" if "checkpoint" in name else "6s"
    done = subprocess.run(
        [
            lockstep,
            "record",
            "--redact",
            "--duration",
            seconds,
            "-o",
            os.path.join(folder, f"{name}.jsonl.zst"),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        print(name, done.stderr[-300:], flush=True)
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    report = subprocess.run(
        [lockstep, "diagnose", os.path.join(folder, f"{name}.jsonl.zst")],
        capture_output=True,
        text=True,
    )
    print(f"== {name}\n" + "\n".join(report.stdout.splitlines()[:14]), flush=True)


def main(lockstep, python, folder, *wanted):
    os.makedirs(folder, exist_ok=True)
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    for name, flags in TRAINER.items():
        if not wanted or f"trainer-{name}" in wanted:
            record(lockstep, f"trainer-{name}", [trainer, *GPT2, *flags], folder)
    for name in TRAINER:
        if not wanted or f"pytorch-{name}" in wanted:
            record(
                lockstep,
                f"pytorch-{name}",
                [python, os.path.join(HERE, "train_with_pytorch.py"), name, "60"],
                folder,
            )


main(*sys.argv[1:])
