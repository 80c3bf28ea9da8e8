"""What `lockstep profile` costs a training on a GPU: the same program alone and profiled, by turns.

usage: probe_cost.py [--rounds N] LOCKSTEP PYTHON [PROGRAM...]
       probe_cost.py --train PROGRAM STEPS

Programs: gpu-bound (GPT-2 124M, batches of 16), host-bound (a narrow GPT whose kernels end before the next is queued),
compiled (the first one, compiled). Processes on one machine differ by a fifth for no reason that shows, so each is its own
measure: the probes leave it at half time, and what its steps take before and after that, by its own clock and behind the
first 48, is compared; the same halves of the program alone say what time itself does. All that is measured with is in the
first half: windows of the CUDA probe, their switching, and the rest.
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
PROGRAMS = ("host-bound", "gpu-bound", "compiled")
HALF = {"host-bound": 480, "gpu-bound": 208, "compiled": 256}  # steps: 7 to 10 s on an H200
BLOCK = 16  # steps; the host must not run further ahead of the clock
WARM_UP, LEAVING = 3, 3  # blocks


def train(program, most_steps):
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
    block_ms, began = [], time.perf_counter()
    for step in range(1, most_steps + 1):
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % BLOCK == 0:
            torch.cuda.synchronize()
            now = time.perf_counter()
            block_ms.append(1e3 * (now - began) / BLOCK)
            began = now
    print(json.dumps(block_ms))


def halves_ms(command, cwd):
    """What a step takes in the first half and in the second."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200)
    blocks = json.loads(done.stdout.splitlines()[-1])
    half = len(blocks) // 2
    return statistics.mean(blocks[WARM_UP:half]), statistics.mean(blocks[half + LEAVING :])


def percent(ratios):
    return f"{100 * statistics.median(ratios) - 100:+.1f} % ({100 * min(ratios) - 100:+.1f} to {100 * max(ratios) - 100:+.1f})"


def compare(lockstep, python, programs, rounds):
    print(
        "| program | a step without | first half against second: alone | profiled | the profile's cost | S305 |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for program in programs:
        steps = HALF[program]
        command = [python, os.path.abspath(__file__), "--train", program, str(2 * steps)]
        after, alone, profiled, said = [], [], [], "nothing"
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            watched = [lockstep, "profile", "--json", "-o", report, "--steps", str(steps), "--"]
            for _ in range(rounds):
                for times, prefix in ((alone, []), (profiled, watched)):
                    first, second = halves_ms(prefix + command, folder)
                    times.append(first / second)
                    after.append(second)
                    print(
                        f"{program} {'profiled' if prefix else 'alone'}: {first:.2f} ms, {second:.2f} ms",
                        file=sys.stderr,
                        flush=True,
                    )
            with open(report, encoding="utf-8") as file:
                for finding in json.load(file)["findings"]:
                    if finding["code"] == "S305":
                        said = f"{100 * finding['lost_throughput']:.0f} %"
        cost = statistics.median(profiled) / statistics.median(alone) - 1
        print(
            f"| {program} | {statistics.median(after):.2f} ms | {percent(alone)} | {percent(profiled)} | {100 * cost:+.1f} % | {said} |",
            flush=True,
        )


def main():
    if sys.argv[1:2] == ["--train"]:
        return train(sys.argv[2], int(sys.argv[3]))
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("lockstep", type=os.path.abspath)
    arguments.add_argument("python")
    arguments.add_argument("program", nargs="*")
    options = arguments.parse_args()
    return compare(options.lockstep, options.python, options.program or PROGRAMS, options.rounds)


main()
