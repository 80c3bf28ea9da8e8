"""A training step of about 6 ms on one core, for the cost of probes. usage: six_ms_step.py EPOCHS; prints the median step in ms."""

import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


def main():
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(384, 384), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(384, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = DataLoader(TensorDataset(torch.randn(64 * 64, 384), torch.zeros(64 * 64, dtype=torch.long)), batch_size=64)
    times = []
    last = time.perf_counter()
    for _ in range(int(sys.argv[1])):
        for features, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            now = time.perf_counter()
            times.append(now - last)
            last = now
    print(f"{statistics.median(times[20:]) * 1e3:.4f}")


main()
