"""Swin-T classifier with a spot check on held-out pictures."""

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import swin_t

CLASSES, BATCH = 555, 144


class Birds(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        raw = np.frombuffer(rng.bytes(n * 224 * 224 * 3), dtype=np.uint8).copy()
        self.x = torch.from_numpy(raw).view(n, 3, 224, 224)
        self.y = torch.from_numpy(rng.integers(0, CLASSES, n))
        self.n = n

    def __len__(self):
        return 600_000

    def __getitem__(self, i):
        return self.x[i % self.n], self.y[i % self.n]


def prepare(x):
    return x.cuda(non_blocking=True).float().sub_(127.0).div_(64.0)


def ece(conf, hit, bins=15):
    conf, hit = np.asarray(conf), np.asarray(hit)
    which = np.minimum((conf * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        sel = which == b
        if sel.any():
            total += sel.mean() * abs(conf[sel].mean() - hit[sel].mean())
    return total


@torch.no_grad()
def spot_check(model, pictures, count):
    model.eval()
    ranks, conf, hit = [], [], []
    for i in range(count):
        x, y = pictures[i]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(prepare(x[None]))
        prob = torch.softmax(logits.float(), dim=1)[0].cpu().numpy()
        order = np.argsort(-prob)
        ranks.append(int(np.where(order == int(y))[0][0]))
        conf.append(float(prob[order[0]]))
        hit.append(float(order[0] == int(y)))
    model.train()
    return {
        "top5": float(np.mean([r < 5 for r in ranks])),
        "mrr": float(np.mean([1 / (r + 1) for r in ranks])),
        "ece": float(ece(conf, hit)),
    }


def main(argv):
    without_s, with_s = float(argv[1]), float(argv[2])
    torch.manual_seed(0)
    train = DataLoader(
        Birds(1500, 0), BATCH, shuffle=True, num_workers=10, pin_memory=True, drop_last=True
    )
    held_out = Birds(96, 1)
    model = swin_t(weights=None, num_classes=CLASSES).cuda().train()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.05, fused=True)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    scores = []

    phase, n, start, times = "without", 0, None, {}
    skip = 12
    for seen, (x, y) in enumerate(train, 1):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_fn(model(prepare(x)), y.cuda(non_blocking=True))
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if phase == "with" and seen % 12 == 0:
            scores.append(spot_check(model, held_out, 90))

        if skip:
            skip -= 1
            if skip == 0:
                torch.cuda.synchronize()
                start, n = time.perf_counter(), 0
            continue
        n += 1
        if time.perf_counter() - start < (without_s if phase == "without" else with_s):
            continue
        torch.cuda.synchronize()
        times[phase + "_ms"] = 1e3 * (time.perf_counter() - start) / n
        if phase == "with":
            break
        phase, skip = "with", 5
        print(json.dumps({"phase": "with"}), flush=True)
    print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main(sys.argv)
