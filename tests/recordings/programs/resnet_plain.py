"""Plain ResNet-50 training, channels_last, twelve loader workers."""

import json
import sys
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet50


class Pictures(Dataset):
    def __init__(self, pool=2000):
        rng = np.random.default_rng(0)
        raw = np.frombuffer(rng.bytes(pool * 224 * 224 * 3), dtype=np.uint8).copy()
        self.data = torch.from_numpy(raw).view(pool, 224, 224, 3)
        self.target = torch.from_numpy(rng.integers(0, 1000, pool))

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        k = index % len(self.data)
        return self.data[k], self.target[k]


def endless(loader):
    while True:
        for item in loader:
            yield item


def train_step(model, criterion, optimizer, scheduler, images, target, mean, std):
    images = images.cuda(non_blocking=True).permute(0, 3, 1, 2)
    target = target.cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output = model((images.float() - mean) / std)
        loss = criterion(output, target)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.detach()


def main():
    without_s, with_s = float(sys.argv[1]), float(sys.argv[2])
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    loader = DataLoader(
        Pictures(),
        batch_size=160,
        shuffle=True,
        num_workers=12,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    stream = endless(loader)
    model = resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
    model.train()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).cuda()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-5, fused=True
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100_000)
    mean = torch.tensor([123.7, 116.3, 103.5], device="cuda").view(1, 3, 1, 1)
    std = torch.tensor([58.4, 57.1, 57.4], device="cuda").view(1, 3, 1, 1)

    def loop(seconds, warm):
        for _ in range(warm):
            train_step(model, criterion, optimizer, scheduler, *next(stream), mean, std)
        torch.cuda.synchronize()
        start, steps = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            train_step(model, criterion, optimizer, scheduler, *next(stream), mean, std)
            steps += 1
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start) / steps

    without_ms = loop(without_s, 15)
    print(json.dumps({"phase": "with"}), flush=True)
    with_ms = loop(with_s, 4)
    print(json.dumps({"without_ms": without_ms, "with_ms": with_ms}), flush=True)


if __name__ == "__main__":
    main()
