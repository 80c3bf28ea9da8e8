"""Action recognition by frame averaging: every clip is eight small frame files."""

import ctypes
import json
import multiprocessing as mp
import os
import random
import shutil
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import wide_resnet50_2

CLIPS, FRAMES, SIDE, WORKERS = 40, 8, 112, 4
ROOT = f"frames_{os.getpid()}"


def write_frames(n=640):
    os.makedirs(ROOT, exist_ok=True)
    rng = np.random.default_rng(0)
    for i in range(n):
        with open(f"{ROOT}/{i:05d}.raw", "wb") as f:
            f.write(rng.bytes(SIDE * SIDE * 3))
    return [f"{ROOT}/{i:05d}.raw" for i in range(n)]


class Share:
    """The mounted share; latency is what one open costs there."""

    def __init__(self):
        self.latency = mp.Value(ctypes.c_double, 0.0, lock=False)

    def fetch(self, path):
        wait = self.latency.value
        if wait > 0:
            time.sleep(wait * random.uniform(0.6, 1.4))
        with open(path, "rb") as f:
            return np.frombuffer(f.read(), dtype=np.uint8)


class Clips(Dataset):
    def __init__(self, paths, share):
        self.paths, self.share = paths, share

    def __len__(self):
        return 200_000

    def __getitem__(self, i):
        first = (i * 7) % (len(self.paths) - FRAMES)
        parts = [self.share.fetch(p) for p in self.paths[first : first + FRAMES]]
        clip = np.stack(parts).reshape(FRAMES, SIDE, SIDE, 3)
        return torch.from_numpy(clip), i % 400


class FrameMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = wide_resnet50_2(weights=None, num_classes=400)

    def forward(self, clips):
        b, t, h, w, c = clips.shape
        x = clips.reshape(b * t, h, w, c).permute(0, 3, 1, 2)
        return self.net((x.float() - 127.0) / 64.0).view(b, t, -1).float().mean(1)


class Runner:
    def __init__(self, loader):
        self.loader = loader
        self.it = iter(loader)
        self.model = FrameMean().cuda().to(memory_format=torch.channels_last)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.02, momentum=0.9, fused=True)
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)

    def pull(self):
        try:
            return next(self.it)
        except StopIteration:
            self.it = iter(self.loader)
            return next(self.it)

    def step(self):
        clips, y = self.pull()
        clips = clips.cuda(non_blocking=True)
        y = y.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.loss(self.model(clips), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()

    def go(self, seconds, unmeasured):
        for _ in range(unmeasured):
            self.step()
        torch.cuda.synchronize()
        began = time.perf_counter()
        steps = 0
        while time.perf_counter() < began + seconds:
            self.step()
            steps += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / steps


def main(without_s, with_s):
    torch.backends.cudnn.benchmark = True
    share = Share()
    data = Clips(write_frames(), share)
    loader = DataLoader(
        data,
        batch_size=CLIPS,
        shuffle=True,
        num_workers=WORKERS,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    runner = Runner(loader)
    a = runner.go(without_s, 15)
    print(json.dumps({"phase": "with"}), flush=True)
    share.latency.value = 2.3 * a * WORKERS / (CLIPS * FRAMES)
    b = runner.go(with_s, 14)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    try:
        main(float(sys.argv[1]), float(sys.argv[2]))
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)
