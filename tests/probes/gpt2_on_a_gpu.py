"""GPT-2 124M on one GPU, as people train it: bf16 by autocast, fused AdamW. usage: gpt2_on_a_gpu.py [--cause CAUSE] [--compile] [--steps N] [--turns N]

causes: nothing, starved (the loader takes longer than the step), sync (reads the loss in every step), launch_bound (small and many layers, one
sample), checkpoint (saves every tenth step), mask (x[mask] in the model: a wait that no line shows)
--turns N: instead, N times ten steps with the CUDA probe on and off by turns within this process, and the ratio
"""

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/lib"))
import gpt_in_pytorch

LENGTH, VOCABULARY = 1024, 50304


class Tokens(Dataset):
    def __init__(self, pause):
        self.pause = pause

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.pause:
            time.sleep(self.pause)
        return torch.randint(0, VOCABULARY, (LENGTH + 1,))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cause", default="nothing")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--turns", type=int, default=0)
    options = parser.parse_args()
    if options.turns:
        os.environ["LOCKSTEP_CUDA_PROBE"] = "always"  # no windows but these
    small = options.cause == "launch_bound"
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = gpt_in_pytorch.GPT(
            *((24, 4, 128) if small else (12, 12, 768)), LENGTH, VOCABULARY if not small else 512
        )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    run = torch.compile(model) if options.compile else model
    batch_size = 1 if small else options.batch
    pause = 0.012 if options.cause == "starved" else 0
    loader = DataLoader(
        Tokens(pause),
        batch_size=batch_size,
        num_workers=0 if options.cause == "starved" else 2,
        pin_memory=True,
    )
    scratch = tempfile.mkdtemp()

    def step(batch):
        there = batch.to("cuda", non_blocking=True)
        if small:
            there = there % 512
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(there[:, :-1].contiguous(), there[:, 1:].contiguous())
        if options.cause == "mask":
            loss = loss + 0 * there[there > 3].float().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    if options.turns:
        return by_turns(step, next(iter(loader)).pin_memory(), options.turns)
    began = None
    for index, batch in enumerate(loader):
        loss = step(batch)
        if options.cause == "sync":
            value = loss.item()  # CAUSE: sync
        if options.cause == "checkpoint" and index % 10 == 9:
            torch.save(model.state_dict(), os.path.join(scratch, "model.pt"))  # CAUSE: checkpoint
        if index == options.steps // 2:
            torch.cuda.synchronize()
            began, first = time.perf_counter(), index
        if index + 1 >= options.steps:
            break
    torch.cuda.synchronize()
    print(f"{(time.perf_counter() - began) / (index - first) * 1e3:.3f} ms per step")


def by_turns(step, batch, turns):
    """Medians of ten steps with and without the probe's records, one after the other."""
    window = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).lockstep_cuda_probe_window
    for _ in range(10):
        step(batch)
    times = {0: [], 1: []}
    for turn in range(2 * turns):
        off = turn % 2
        window(not off)
        step(batch)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(10):
            step(batch)
        torch.cuda.synchronize()
        times[off].append((time.perf_counter() - began) * 100)
    on, off = statistics.median(times[0]), statistics.median(times[1])
    print(
        f"on {on:.3f} ms off {off:.3f} ms ratio {on / off:.4f} best {min(times[0]) / min(times[1]):.4f}"
    )


main()
