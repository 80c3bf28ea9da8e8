"""Trains for some epochs by DDP over Gloo, with an evaluation after each, and one fault put in on purpose.

usage: torchrun --standalone --nproc_per_node=2 epochs_with_a_fault.py FAULT

The lines that a profile must name carry the mark `# FAULT: <name>`.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FEATURES = 128
EPOCHS = 4


class Samples(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((FEATURES,), index % 7 / 7.0), index % 10


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 10),
        )

    def forward(self, features):
        return self.layers(features)


def evaluate(model, loader, fault):
    model.eval()
    right = torch.zeros(1)
    with torch.no_grad():
        for features, labels in loader:
            right += (model(features).argmax(1) == labels).sum()
            if fault == "one_rank_evaluates":
                time.sleep(0.02)
    model.train()
    if fault not in ("unreduced_metric", "one_rank_evaluates"):
        dist.all_reduce(right)
    return right


def main():
    fault = sys.argv[1]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1 if fault in ("same_seed", "unsharded") else 1 + rank)

    model = DistributedDataParallel(Model(), find_unused_parameters=fault == "searches_unused")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    samples = Samples(4096)
    sampler = None if fault == "unsharded" else DistributedSampler(samples)
    workers = 1
    persistent = fault != "restarts_workers"
    loader = DataLoader(
        samples,
        batch_size=64,
        sampler=sampler,
        shuffle=sampler is None,
        num_workers=workers,
        persistent_workers=persistent,
    )
    held_out = Samples(512)
    evaluation = DataLoader(
        held_out, batch_size=64, sampler=DistributedSampler(held_out, shuffle=False), num_workers=0
    )
    for epoch in range(EPOCHS):
        if sampler is not None and fault != "same_order":
            sampler.set_epoch(epoch)
        for features, labels in loader:  # FAULT: loader
            loss = torch.nn.functional.cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if epoch == EPOCHS - 1:
            break  # what follows the last step is no part of one
        if rank == 0 or fault != "one_rank_evaluates":
            evaluate(model.module, evaluation, fault)  # FAULT: evaluation
        if rank == 0 or fault == "every_rank_saves":
            # FAULT: every_rank_saves
            torch.save(model.module.state_dict(), os.path.join(os.getcwd(), "model.pt"))
    dist.barrier()
    dist.destroy_process_group()


main()
