"""ViT-B/16 on photo crops; stronger augmentation is switched on part-way."""

import json
import multiprocessing as mp
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import vit_b_16

BATCH, WORKERS, POOL, SIDE = 128, 3, 1500, 224


def jitter(img, rng):
    gain = rng.uniform(0.7, 1.3, 3).astype(np.float32)
    mean = img.mean(axis=(0, 1), keepdims=True)
    return np.clip((img - mean) * gain + mean * rng.uniform(0.8, 1.2), 0, 255).astype(np.float32)


def soften(img, rng):
    p = np.pad(img, ((1, 1), (1, 1), (0, 0)), mode="edge")
    out = np.zeros_like(img)
    for dy in range(3):
        for dx in range(3):
            out += p[dy : dy + SIDE, dx : dx + SIDE]
    return out / 9.0


def turn(img, rng):
    a = np.deg2rad(rng.uniform(-20, 20))
    yy, xx = np.meshgrid(np.arange(SIDE) - SIDE / 2, np.arange(SIDE) - SIDE / 2, indexing="ij")
    sy = np.clip(yy * np.cos(a) - xx * np.sin(a) + SIDE / 2, 0, SIDE - 1).astype(np.int32)
    sx = np.clip(yy * np.sin(a) + xx * np.cos(a) + SIDE / 2, 0, SIDE - 1).astype(np.int32)
    return img[sy, sx]


def grain(img, rng):
    return np.clip(img + 8.0 * rng.standard_normal(img.shape, dtype=np.float32), 0, 255)


def tone(img, rng):
    return 255.0 * np.power(img / 255.0 + 1e-4, np.float32(rng.uniform(0.7, 1.4)))


OPS = [jitter, soften, turn, grain, tone]


def augment(img, n, rng):
    img = img.astype(np.float32)
    for k in rng.integers(0, len(OPS), n):
        img = OPS[k](img, rng)
    return np.clip(img, 0, 255).astype(np.uint8)


class Photos(Dataset):
    def __init__(self, strength):
        rng = np.random.default_rng(0)
        raw = np.frombuffer(rng.bytes(POOL * SIDE * SIDE * 3), dtype=np.uint8)
        self.images = raw.reshape(POOL, SIDE, SIDE, 3)
        self.labels = rng.integers(0, 1000, POOL)
        self.strength = strength

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        img = self.images[i % POOL]
        if rng.random() < 0.5:
            img = img[:, ::-1]
        n = self.strength.value
        if n:
            img = augment(img, n, rng)
        return torch.from_numpy(img.copy()), int(self.labels[i % POOL])


def cycle(loader):
    while True:
        yield from loader


def train_one(model, opt, batch):
    x, y = (t.to("cuda", non_blocking=True) for t in batch)
    x = x.permute(0, 3, 1, 2).float().sub_(127.0).div_(64.0)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)


def run_for(seconds, skip, model, opt, batches):
    for _ in range(skip):
        train_one(model, opt, next(batches))
    torch.cuda.synchronize()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        train_one(model, opt, next(batches))
        n += 1
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / n


def main():
    without_s, with_s = float(sys.argv[1]), float(sys.argv[2])
    strength = mp.Value("i", 0, lock=False)
    data = Photos(strength)
    rng, t = np.random.default_rng(1), time.perf_counter()
    for _ in range(8):
        for op in OPS:
            op(data.images[0].astype(np.float32), rng)
    op_s = (time.perf_counter() - t) / (8 * len(OPS))
    loader = DataLoader(
        data,
        BATCH,
        shuffle=True,
        num_workers=WORKERS,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    batches = cycle(loader)
    model = vit_b_16(weights=None).cuda().train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    a = run_for(without_s, 12, model, opt, batches)
    print(json.dumps({"phase": "with"}), flush=True)
    strength.value = min(20, max(1, round(2.4 * a * WORKERS / BATCH / op_s)))
    b = run_for(with_s, 10, model, opt, batches)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    main()
