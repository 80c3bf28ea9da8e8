"""A training step of about 6 ms on one core, timed with a profiler on and off by turns within one process, for two processes differ by
more than a profiler adds. Each stretch with it is compared with those before and after it, for the machine's speed drifts."""

import contextlib
import statistics
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def measure(blocks, switch, around=contextlib.nullcontext, kind=lambda: "added"):
    """Returns the median step without the profiler in ms, and what it adds to one, by what kind() says of each stretch.

    switch(on) turns the profiler on or off, around(model) is entered around each step while it is on.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(384, 384), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(384, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = DataLoader(
        TensorDataset(torch.randn(64 * 64, 384), torch.zeros(64 * 64, dtype=torch.long)),
        batch_size=64,
    )
    medians, kinds = [], []
    for block in range(blocks | 1):
        on = block % 2 == 1
        switch(on)
        last, times = None, []
        for step, (features, labels) in enumerate(batches):
            with around(model) if on else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(model(features), labels)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            now = time.perf_counter()
            if step > 8:
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
