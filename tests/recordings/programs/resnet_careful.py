"""ResNet-101 on leaf scans; the second part of the run is done without mixed precision."""

import contextlib
import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import models

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True


class Leaves(Dataset):
    def __init__(self, pool=1200, side=224):
        rng = np.random.default_rng(3)
        raw = np.frombuffer(rng.bytes(pool * side * side * 3), dtype=np.uint8).copy()
        self.scans = torch.from_numpy(raw).view(pool, side, side, 3)
        self.kind = torch.from_numpy(rng.integers(0, 120, pool))

    def __len__(self):
        return 800_000

    def __getitem__(self, i):
        j = i % len(self.scans)
        return self.scans[j], self.kind[j]


class Fit:
    def __init__(self, batch=96):
        loader = DataLoader(
            Leaves(),
            batch,
            shuffle=True,
            num_workers=8,
            pin_memory=True,
            drop_last=True,
            prefetch_factor=3,
        )
        self.source = iter(loader)
        net = models.resnet101(weights=None, num_classes=120)
        self.net = net.cuda().to(memory_format=torch.channels_last).train()
        self.opt = torch.optim.SGD(
            self.net.parameters(),
            lr=0.05,
            momentum=0.9,
            weight_decay=1e-4,
            nesterov=True,
            fused=True,
        )
        self.criterion = nn.CrossEntropyLoss()
        self.mixed = True

    def precision(self):
        if self.mixed:
            return torch.autocast("cuda", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def once(self):
        scans, kind = next(self.source)
        scans = scans.cuda(non_blocking=True).permute(0, 3, 1, 2)
        kind = kind.cuda(non_blocking=True)
        with self.precision():
            loss = self.criterion(self.net((scans.float() - 127.0) / 64.0), kind)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()

    def lasting(self, seconds):
        torch.cuda.synchronize()
        t0, n = time.perf_counter(), 0
        while time.perf_counter() - t0 < seconds:
            self.once()
            n += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - t0) * 1e3 / n


def main():
    without_s, with_s = (float(v) for v in sys.argv[1:3])
    fit = Fit()
    for _ in range(15):
        fit.once()
    without_ms = fit.lasting(without_s)
    print(json.dumps({"phase": "with"}), flush=True)
    fit.mixed = False
    for _ in range(6):
        fit.once()
    with_ms = fit.lasting(with_s)
    print(json.dumps({"without_ms": without_ms, "with_ms": with_ms}), flush=True)


if __name__ == "__main__":
    main()
