"""Trains a small model by DDP over Gloo with one cause of lost time put in on purpose, and says what was put in.

usage: torchrun --standalone --nproc_per_node=2 training_with_a_cause.py CAUSE [--steps N] [--truth FILE]

The lines that a profile must name carry the mark `# CAUSE: <name>`. The truth is what this process itself measured around them:
seconds, on each rank, between the end of the third step and the end of the last.
"""

import argparse
import contextlib
import gc
import json
import logging
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FEATURES = 256
spent = {"seconds": 0.0}


@contextlib.contextmanager
def truth():
    began = time.perf_counter()
    yield
    spent["seconds"] += time.perf_counter() - began


class Samples(Dataset):
    def __init__(self, slow):
        self.slow = slow

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if self.slow:
            time.sleep(0.0008)
        return torch.full((FEATURES,), index % 7 / 7.0), index % 10


class SlowHandler(logging.Handler):
    def emit(self, record):
        time.sleep(0.003)


class AsksAServer(torch.nn.Module):
    def forward(self, features):
        with truth():
            time.sleep(0.004)  # CAUSE: forward_waits
        return features


def spy_on(gradient):
    with truth():
        time.sleep(0.004)  # CAUSE: hook_waits


def write_log_line(file, step, loss):
    """As people write their own: a line of JSON, flushed to the disk, with a slow network below
    it.
    """
    file.write(json.dumps({"step": step, "loss": float(loss)}) + "\n")
    file.flush()
    time.sleep(0.003)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cause")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--truth")
    options = parser.parse_args()
    cause = options.cause

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1 + rank)

    layers = [
        layer for _ in range(3) for layer in (torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU())
    ]
    if cause == "forward_waits":
        layers.append(AsksAServer())
    model = DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(FEATURES, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = Samples(slow=cause == "slow_dataset")
    sampler = DistributedSampler(samples)
    workers = 1
    # CAUSE: loader
    loader = DataLoader(
        samples,
        batch_size=8 if cause == "slow_dataset" else 32,
        sampler=sampler,
        num_workers=workers,
    )
    logger = logging.getLogger("training")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if cause == "log_inside":
        logger.addHandler(SlowHandler())
    folder = os.path.dirname(os.path.abspath(options.truth)) if options.truth else "/tmp"
    log_file = open(os.path.join(folder, f"metrics-{rank}.jsonl"), "w")
    ballast = [[object()] for _ in range(400_000)] if cause == "gc" else []
    accumulation = 4 if cause in ("no_sync_missing", "no_sync_used") else 1

    began = None
    step = 0
    micro = 0
    sampler.set_epoch(0)
    for features, labels in loader:  # CAUSE: slow_dataset
        if cause == "slow_rank_before" and rank == 1:
            with truth():
                time.sleep(0.015)  # CAUSE: slow_rank_before
        last = micro % accumulation == accumulation - 1
        guard = (
            model.no_sync() if cause == "no_sync_used" and not last else contextlib.nullcontext()
        )
        if cause == "hook_waits":
            features.requires_grad_().register_hook(spy_on)
        with guard:
            loss = torch.nn.functional.cross_entropy(model(features), labels)
            if cause == "slow_rank_between" and rank == 1:
                with truth():
                    time.sleep(0.015)  # CAUSE: slow_rank_between
            (loss / accumulation).backward()
        micro += 1
        if not last:
            continue
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if cause == "item":
            value = loss.item()  # CAUSE: item
        if cause == "log_inside":
            with truth():
                logger.info("step %d loss %f", step, loss)  # CAUSE: log_inside
        if cause == "log_outside":
            with truth():
                write_log_line(log_file, step, loss)  # CAUSE: log_outside
        if cause == "every_20th" and step % 20 == 0:
            with truth():
                time.sleep(0.1)  # CAUSE: every_20th
        if cause == "checkpoint" and step % 20 == 0 and rank == 0:
            with truth():
                state = {"model": model.module.state_dict(), "extra": torch.zeros(2_000_000)}
                torch.save(state, os.path.join(folder, "checkpoint.pt"))  # CAUSE: checkpoint
        if cause == "gc" and step % 10 == 0:
            with truth():
                gc.collect()
        if cause == "reduce":
            with truth():
                dist.all_reduce(loss.detach())  # CAUSE: reduce
        if step == 3:
            began = time.perf_counter()
            spent["seconds"] = 0.0
        if step >= options.steps:
            break
    wall = time.perf_counter() - began
    log_file.close()
    del ballast
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, {"rank": rank, "seconds": spent["seconds"], "wall": wall})
    if rank == 0 and options.truth:
        with open(options.truth, "w") as file:
            json.dump({"cause": cause, "ranks": every}, file)
    dist.destroy_process_group()


main()
