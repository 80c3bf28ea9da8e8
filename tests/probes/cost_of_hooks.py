"""What the Python probe's hooks cost on a step of about 6 ms: within one process, on and off by turns, which no two processes can
tell. Each stretch with the probe is compared with those before and after it, for the machine's speed drifts.

usage: cost_of_hooks.py PROBE_FOLDER [BLOCKS]; prints JSON: the median step without the probe in ms, and what the probe adds to a
step in ms (medians) in its first seconds, when it looks often, and from then on
"""

import json
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
rings = tempfile.TemporaryDirectory()
os.environ["LOCKSTEP_PROBE_FOLDER"] = rings.name

import torch
import torch.utils.data._utils.fetch as fetch
import torch.utils.data.dataloader as dataloader
from torch.utils.data import DataLoader, TensorDataset

from lockstep_probe import collector, loader, patches, recorder, sampler, saving, tensors, training, words

torch.set_num_threads(1)
torch.manual_seed(0)


def switch_on():
    recorder._stopped = False
    tensors.hook(torch)
    words.hook_builtins()
    collector.hook()
    saving.hook_torch(torch)
    training.hook_autograd(torch.autograd)
    training.hook_optimizer(sys.modules["torch.optim.optimizer"])
    loader.hook(dataloader)
    loader.hook_fetch(fetch)
    training._steps, training._boundary, training._boundary_id, training._next_chore, training._rescans, sampler._thread = 0, None, None, 0, 0, None


def switch_off():
    recorder.stop()
    training.unhook()
    collector.unhook()
    patches.put_back_all()


def main():
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(384, 384), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(384, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = DataLoader(TensorDataset(torch.randn(64 * 64, 384), torch.zeros(64 * 64, dtype=torch.long)), batch_size=64)
    blocks = []  # (the probe is on, it looks often, the median step)
    for block in range(int(sys.argv[2]) if len(sys.argv) > 2 else 101):
        on = block % 2 == 1
        switch_on() if on else switch_off()
        last, times = None, []
        for step, (features, labels) in enumerate(batches):
            loss = torch.nn.functional.cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            now = time.perf_counter()
            if step > 8:
                times.append(now - last)
            last = now
        blocks.append((on, sampler._looks < sampler._LOOKS_AT_FIRST, statistics.median(times) * 1e3))
    switch_off()
    added = {True: [], False: []}
    for before, (on, often, took), after in zip(blocks, blocks[1:], blocks[2:]):
        if on:
            added[often].append(took - (before[2] + after[2]) / 2)
    print(json.dumps({"without_ms": statistics.median(took for on, _, took in blocks if not on), "adds_at_first_ms": statistics.median(added[True]),
                      "adds_later_ms": statistics.median(added[False])}))


main()
