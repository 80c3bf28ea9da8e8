"""Trains on one GPU with one cause of lost time put in on purpose. usage: gpu_training_with_a_cause.py CAUSE [--steps N]

causes: nothing, hidden_wait (the loader is slow, and the GPU has enough queued), exposed_wait (the same, with a read of the loss in
each step, so that the GPU runs dry), item, pageable, logging, unfused, launch_bound (many tiny layers), accumulation (eight passes a
step in a tenth of the memory), thrash (ever larger tensors near the memory's limit)
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

WIDTH = 4096


class Samples(Dataset):
    def __init__(self, pause, rows):
        self.pause, self.rows = pause, rows

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.pause:
            time.sleep(self.pause)
        return torch.full((self.rows, WIDTH), 0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cause")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    cause = options.cause

    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda")
    tiny = cause == "launch_bound"
    width, depth = (64, 200) if tiny else (WIDTH, 12)
    layers = [
        layer for _ in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())
    ]
    passes = 8 if cause == "accumulation" else 1
    if cause == "thrash":
        torch.cuda.set_per_process_memory_fraction(0.05)
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=cause != "unfused")
    pause = 0.004 if cause in ("hidden_wait", "exposed_wait") else 0
    loader = DataLoader(
        Samples(pause, 2048 if cause == "pageable" else 64),
        batch_size=1,
        num_workers=0,
        pin_memory=cause != "pageable",
    )
    step = 0
    for batch in loader:  # CAUSE: wait
        batch = batch[0].to(device, non_blocking=cause != "pageable")  # CAUSE: copy
        if batch.shape[0] < 2048:
            batch = batch.repeat(2048 // batch.shape[0], 1)
        for _ in range(passes):
            loss = model(batch[:32, :width] if tiny else batch).float().square().mean()
            loss.backward()
        if cause == "thrash":
            # CAUSE: thrash
            kept = torch.empty(64 + step * 16 % 1000 << 20, dtype=torch.uint8, device=device)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if cause in ("item", "exposed_wait"):
            value = loss.item()  # CAUSE: item
        if cause == "logging":
            print("step", step, "loss", loss.item())  # CAUSE: logging
            time.sleep(0.003)
        if step == 100:
            torch.cuda.synchronize()
            began = time.perf_counter()
        if step >= options.steps:
            break
    torch.cuda.synchronize()
    print(f"{(time.perf_counter() - began) / (step - 100) * 1e3:.3f} ms per step")


main()
