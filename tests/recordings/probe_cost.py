"""What `lockstep profile` costs a training on a GPU: the same program alone and profiled, by turns.

usage: probe_cost.py [--rounds N] LOCKSTEP PYTHON [PROGRAM...]
       probe_cost.py --train PROGRAM SECONDS

Programs: gpu-bound (GPT-2 124M, batches of 16), host-bound (a narrow GPT whose kernels end before the next is queued),
compiled (the first one, compiled). Each prints the mean length of its steps behind the first 50, by its own clock; the
table has medians over the rounds. The whole run is measured: windows of the CUDA probe, their switching, and the rest.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("gpu-bound", "host-bound", "compiled")
WARM_UP = 50
SECONDS = 14


def train(program, seconds):
    import torch

    sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts", "lib"))
    from gpt_in_pytorch import GPT, parameter_groups

    torch.set_float32_matmul_precision("high")
    length = 64 if program == "host-bound" else 1024
    with torch.device("cuda"):
        model = (
            GPT(12, 4, 128, length, 512)
            if program == "host-bound"
            else GPT(12, 12, 768, length, 50304)
        )
        tokens = torch.randint(0, 512, (16, length + 1))
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=1e-4, fused=True)
    forward = torch.compile(model) if program == "compiled" else model
    steps, began = 0, None
    until = None
    while until is None or time.perf_counter() < until:
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps += 1
        if steps == WARM_UP:
            torch.cuda.synchronize()
            began = time.perf_counter()
            until = began + seconds
        elif steps % 16 == 0:
            torch.cuda.synchronize()  # the host must not run ahead of the clock
    torch.cuda.synchronize()
    print(json.dumps({"step_ms": 1e3 * (time.perf_counter() - began) / (steps - WARM_UP)}))


def measured(command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200)
    return json.loads(done.stdout.splitlines()[-1])["step_ms"]


def compare(lockstep, python, programs, rounds):
    print("| program | alone | profiled | ratio | S305 |\n|---|---|---|---|---|", flush=True)
    for program in programs:
        command = [python, os.path.abspath(__file__), "--train", program, str(SECONDS)]
        alone, profiled, said = [], [], "nothing"
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            for _ in range(rounds):
                alone.append(measured(command, folder))
                watched = [lockstep, "profile", "--json", "-o", report, "--"]
                profiled.append(measured(watched + command, folder))
            with open(report, encoding="utf-8") as file:
                for finding in json.load(file)["findings"]:
                    if finding["code"] == "S305":
                        said = f"{100 * finding['lost_throughput']:.0f} %"
        ratio = statistics.median(b / a for a, b in zip(alone, profiled))
        print(
            f"| {program} | {statistics.median(alone):.2f} ms | {statistics.median(profiled):.2f} ms | {ratio:.3f} | {said} |",
            flush=True,
        )


def main():
    if sys.argv[1:2] == ["--train"]:
        return train(sys.argv[2], float(sys.argv[3]))
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("lockstep", type=os.path.abspath)
    arguments.add_argument("python")
    arguments.add_argument("program", nargs="*")
    options = arguments.parse_args()
    return compare(options.lockstep, options.python, options.program or PROGRAMS, options.rounds)


main()
