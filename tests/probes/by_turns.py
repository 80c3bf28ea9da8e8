"""A training step, timed with a profiler on and off by turns within one process, for two processes differ by more than a profiler
adds. Each stretch with it is compared with those before and after it, for the machine's speed drifts."""

import contextlib
import os
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

SETTLES = 8  # steps of each stretch that do not count


def small_net():
    """Stretches of 64 steps of about 6 ms on one core."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(384, 384), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(384, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = DataLoader(
        TensorDataset(torch.randn(64 * 64, 384), torch.zeros(64 * 64, dtype=torch.long)),
        batch_size=64,
    )

    def step(batch):
        features, labels = batch
        loss = torch.nn.functional.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, batches, step


def narrow_gpt():
    """Stretches of 32 steps of over 700 kernels, which end on the GPU before the host has queued the next ones."""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "lib"))
    from gpt_in_pytorch import GPT, parameter_groups

    with torch.device("cuda"):
        model = GPT(12, 4, 128, 64, 512)
        tokens = torch.randint(0, 512, (16, 65))
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=1e-4, fused=True)

    def step(_):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return model, range(32), step


def measure(blocks, switch, around=contextlib.nullcontext, kind=lambda: "added", program=small_net):
    """Returns the median step without the profiler in ms, and what it adds to one, by what kind() says of each stretch.

    switch(on) turns the profiler on or off, around(model) is entered around each step while it is on.
    """
    model, batches, train = program()
    medians, kinds = [], []
    for block in range(blocks | 1):
        on = block % 2 == 1
        switch(on)
        last, times = None, []
        for step, batch in enumerate(batches):
            with around(model) if on else contextlib.nullcontext():
                train(batch)
            now = time.perf_counter()
            if step > SETTLES:
                times.append(now - last)
            last = now
        medians.append(statistics.median(times) * 1e3)
        kinds.append(kind())
    switch(False)
    added = {}
    for block in range(1, len(medians) - 1, 2):
        added.setdefault(kinds[block], []).append(
            medians[block] - (medians[block - 1] + medians[block + 1]) / 2
        )
    return statistics.median(medians[::2]), {
        name: statistics.median(values) for name, values in added.items()
    }
