"""MLP-Mixer L/16 on images, eight loader workers, loss noted now and then."""

import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, SIDE, PATCH, DIM, DEPTH = 48, 256, 16, 1024, 24
PATCHES = (SIDE // PATCH) ** 2


class Scenes(Dataset):
    def __init__(self, n=1000):
        g = torch.Generator().manual_seed(0)
        self.images = torch.randint(0, 256, (n, 3, SIDE, SIDE), dtype=torch.uint8, generator=g)

    def __len__(self):
        return 400_000

    def __getitem__(self, i):
        image = self.images[i % len(self.images)]
        return (image.flip(-1) if i % 2 else image), i % 365


def two_layers(d, hidden):
    return nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))


class MixBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.across, self.within = two_layers(PATCHES, 512), two_layers(DIM, 4 * DIM)

    def forward(self, x):
        x = x + self.across(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.n2(x))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, DIM, PATCH, PATCH)
        self.blocks = nn.Sequential(*[MixBlock() for _ in range(DEPTH)])
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, 365)

    def forward(self, images):
        x = self.stem((images.float() - 127.5) / 64.0).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


class SceneJob:
    def __init__(self):
        self.loader = DataLoader(
            Scenes(),
            BATCH,
            shuffle=True,
            num_workers=8,
            pin_memory=True,
            drop_last=True,
            persistent_workers=True,
            prefetch_factor=4,
        )
        self.flow = self.flowing()
        self.first = next(self.flow)
        with torch.device("cuda"):
            self.net = Mixer()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
        self.count, self.losses = 0, []

    def flowing(self):
        while True:
            yield from self.loader

    def optimise(self):
        images, labels = next(self.flow)
        images = images.cuda(non_blocking=True)
        labels = labels.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = self.net(images)
        loss = F.cross_entropy(out.float(), labels, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.count += 1
        if self.count % 50 == 0:
            self.losses.append(loss.item())

    def leg(self, seconds, unclocked):
        for _ in range(unclocked):
            self.optimise()
        torch.cuda.synchronize()
        t0, c0 = time.perf_counter(), self.count
        while time.perf_counter() - t0 < seconds:
            self.optimise()
        torch.cuda.synchronize()
        return (time.perf_counter() - t0) / (self.count - c0)


def main():
    torch.manual_seed(0)
    job = SceneJob()
    a = job.leg(float(sys.argv[1]), 14)
    print(json.dumps({"phase": "with"}), flush=True)
    b = job.leg(float(sys.argv[2]), 4)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    main()
