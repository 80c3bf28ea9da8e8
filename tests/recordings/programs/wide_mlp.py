"""Regression of one big feature table on another with a very wide MLP."""

import json
import sys
import time

import numpy as np
import torch
from torch import nn

ROWS, INPUTS, OUTPUTS, PARTS = 8192, 16384, 8192, 3
dev = torch.device("cuda")


def make_tables():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, INPUTS), dtype=np.float32)
    y = rng.standard_normal((ROWS, OUTPUTS), dtype=np.float32)
    return [(np.roll(x, 97 * k, axis=0), np.roll(y, 97 * k, axis=0)) for k in range(PARTS)]


class Ahead:
    """Keeps the next part of the table on its way to the card."""

    def __init__(self, tables):
        self.parts = [tuple(torch.from_numpy(a).pin_memory() for a in pair) for pair in tables]
        self.side = torch.cuda.Stream()
        self.k = 0
        self.load()

    def load(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = [t.to(dev, non_blocking=True) for t in self.parts[self.k % PARTS]]
        self.k += 1

    def take(self):
        torch.cuda.current_stream().wait_stream(self.side)
        got = self.coming
        for t in got:
            t.record_stream(torch.cuda.current_stream())
        self.load()
        return got


class Plain:
    def __init__(self, tables):
        self.tables, self.k = tables, 0

    def take(self):
        self.k += 1
        x, y = self.tables[self.k % PARTS]
        return torch.from_numpy(x).to(dev), torch.from_numpy(y).to(dev)


def build():
    net = nn.Sequential(
        nn.Linear(INPUTS, 12288, device=dev),
        nn.GELU(),
        nn.Linear(12288, 12288, device=dev),
        nn.GELU(),
        nn.Linear(12288, OUTPUTS, device=dev),
    )
    return net, torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)


def update(net, opt, feed):
    x, y = feed.take()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = net(x)
    loss = nn.functional.mse_loss(out.float(), y)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach()


def average_step(net, opt, feed, seconds, ignore):
    for _ in range(ignore):
        update(net, opt, feed)
    torch.cuda.synchronize()
    start = time.perf_counter()
    done = 0
    while time.perf_counter() - start < seconds:
        update(net, opt, feed)
        done += 1
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / done


def main():
    tables = make_tables()
    net, opt = build()
    without_ms = average_step(net, opt, Ahead(tables), float(sys.argv[1]), 12)
    print(json.dumps({"phase": "with"}), flush=True)
    with_ms = average_step(net, opt, Plain(tables), float(sys.argv[2]), 4)
    print(json.dumps({"without_ms": without_ms, "with_ms": with_ms}), flush=True)


if __name__ == "__main__":
    main()
