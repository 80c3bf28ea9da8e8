"""Programs that look closely at what a probe replaces. What each prints must be the same with the probe and without.

usage: odd_programs.py identities|compiled|order|child
"""

import atexit
import gc
import os
import pickle
import sys
import weakref

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler


class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((4,), float(index))


def train(model, steps=3, rows=2):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        model(torch.ones(rows, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


class Strict(torch.Tensor):
    """Knows item and nothing else."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is not torch.Tensor.item:
            raise NotImplementedError(function)
        return 1.0


class Moved(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return (
            "moved"
            if function is torch.Tensor.to
            else super().__torch_function__(function, types, args, kwargs or {})
        )


class Circular(Sampler):
    """Its .sampler leads back to itself."""

    def __init__(self):
        self.sampler = self

    def __iter__(self):
        return iter([1, 2])

    def __len__(self):
        raise NotImplementedError


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.ones(4)] * 4)

    def __len__(self):
        raise RuntimeError("nobody asks")


class NeverSetUp(torch.nn.Module):
    def __init__(self):
        pass


class NamelessFile:
    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        if name == "name":
            raise RuntimeError("no name")
        return getattr(self.file, name)


def identities():
    odd = NeverSetUp()
    train(torch.nn.Linear(4, 2))
    train(torch.jit.script(torch.nn.Linear(4, 2)))
    print("lazy", torch.nn.LazyLinear(3).to("cpu"), torch.nn.LazyLinear(3).cpu())
    print(
        "pickled",
        pickle.loads(pickle.dumps(torch.Tensor.to)) is torch.Tensor.to,
        pickle.loads(pickle.dumps(torch.Tensor.numpy)) is torch.Tensor.numpy,
    )
    print(
        "subclasses",
        torch.ones(1).as_subclass(Strict).item(),
        torch.ones(1).as_subclass(Moved).to("cpu"),
    )
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()))
    print("fx", [node.op for node in traced.graph.nodes])
    print(
        "sampler", [row.tolist() for row in DataLoader(Rows(), sampler=Circular(), batch_size=None)]
    )
    print("stream", len([1 for _ in DataLoader(Stream(), batch_size=2)]))
    with open("whole.pt", "wb") as file:
        torch.save(torch.ones(2), NamelessFile(file))
    rows = Rows()
    loader = DataLoader(rows, num_workers=1, persistent_workers=True, batch_size=32)
    list(loader)
    seen = weakref.ref(rows)
    del rows, loader
    gc.collect()
    print("loader is gone", seen() is None, odd is not None)
    atexit.register(print, "at the end")


def compiled():
    """A class is hooked after the first step; the shorter batch compiles anew."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss_of = torch.compile(
        lambda batch: model(batch).square().mean(), backend="eager", fullgraph=True, dynamic=False
    )
    for rows in (8, 8, 8, 5):
        loss_of(torch.ones(rows, 4)).backward()
        optimizer.step()
        optimizer.zero_grad()
    print(
        "graph breaks",
        sum(torch._dynamo.utils.counters["graph_break"].values()),
        "graphs",
        torch._dynamo.utils.counters["stats"]["unique_graphs"],
    )


def order():
    """The order of three epochs, dealt out by a generator of the program's own; with --dataloader a
    trial comes between.
    """
    torch.manual_seed(7)
    generator = torch.Generator()
    generator.manual_seed(3)
    loader = DataLoader(Rows(), batch_size=16, shuffle=True, generator=generator)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        seen = []
        for batch in loader:
            seen += [int(row[0]) for row in batch]
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        print(seen)
    print(torch.rand(1).item())


def child():
    """A fork of a process that trained trains on."""
    model = torch.nn.Linear(4, 2)
    train(model)
    if os.fork() == 0:
        train(model, 5000, 1)
        recorder = sys.modules.get("lockstep_probe.recorder")
        print("queued in the child", recorder is None or len(recorder._queue) < 20000, flush=True)
        os._exit(0)
    os.wait()


globals()[sys.argv[1]]()
