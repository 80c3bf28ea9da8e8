"""gMLP topic classifier on articles; two loader workers put the batches together."""

import ctypes
import json
import multiprocessing as mp
import random
import string
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, LENGTH, VOCAB, WORKERS, LONGEST = 128, 256, 16000, 2, 10


class Articles(Dataset):
    def __init__(self, words, n=300):
        rnd = random.Random(1)
        self.texts = [" ".join(rnd.choices(words, k=3000)) for _ in range(n)]
        self.ready = np.random.default_rng(1).integers(2, VOCAB, (n, LENGTH))

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        j = i % len(self.texts)
        return self.texts[j], self.ready[j], j % 40


class PieceCollator:
    """Greedy longest-match pieces, then padding. `reach`: characters of each article that are
    cut into pieces here; 0 takes the pieces cut beforehand."""

    def __init__(self, pieces):
        self.ids = {p: i + 2 for i, p in enumerate(pieces)}
        self.reach = mp.Value(ctypes.c_long, 0, lock=False)

    def cut_word(self, word):
        out, at = [], 0
        while at < len(word):
            end = min(len(word), at + LONGEST)
            while end > at and word[at:end] not in self.ids:
                end -= 1
            if end == at:
                out.append(1)
                at += 1
            else:
                out.append(self.ids[word[at:end]])
                at = end
        return out

    def cut_article(self, text, reach):
        found = []
        for word in text[:reach].split(" "):
            found.extend(self.cut_word(word.lower()))
        return found

    def fill_up(self, ids):
        row = []
        for k in range(LENGTH):
            row.append(ids[k] if k < len(ids) else 0)
        return row

    def __call__(self, items):
        texts, ready, topics = zip(*items)
        reach = self.reach.value
        if reach == 0:
            rows = np.stack(ready)
        else:
            rows = np.array(
                [self.fill_up(self.cut_article(t, reach)) for t in texts], dtype=np.int64
            )
        return torch.from_numpy(rows), torch.tensor(topics)


class GateBlock(nn.Module):
    def __init__(self, d=768, hidden=3072):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(hidden // 2)
        self.p1, self.p2 = nn.Linear(d, hidden), nn.Linear(hidden // 2, d)
        self.space = nn.Linear(LENGTH, LENGTH)

    def forward(self, x):
        u, v = F.gelu(self.p1(self.n1(x))).chunk(2, dim=-1)
        v = self.space(self.n2(v).transpose(1, 2)).transpose(1, 2)
        return x + self.p2(u * (v + 1.0))


class TopicNet(nn.Module):
    def __init__(self, d=768, depth=18):
        super().__init__()
        self.pieces = nn.Parameter(0.02 * torch.randn(VOCAB, d))
        self.blocks = nn.Sequential(*[GateBlock(d) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 40)

    def forward(self, ids):
        x = self.pieces.index_select(0, ids.flatten()).view(*ids.shape, -1)
        return self.head(self.norm(self.blocks(x)).mean(1))


def make_words(seed=0):
    rnd = random.Random(seed)
    words = ["".join(rnd.choices(string.ascii_lowercase, k=rnd.randint(3, 9))) for _ in range(6000)]
    pieces = set(string.ascii_lowercase)
    while len(pieces) < VOCAB - 2:
        w = rnd.choice(words)
        a = rnd.randrange(len(w))
        pieces.add(w[a : a + rnd.randint(1, 4)])
    return words, sorted(pieces)


def reach_for(collator, texts, seconds_per_text):
    probe = 4000
    collator.cut_article(texts[0], probe)
    t = time.perf_counter()
    for text in texts[:10]:
        collator.fill_up(collator.cut_article(text, probe))
    per_char = (time.perf_counter() - t) / (10 * probe)
    return int(min(20_000, max(600, seconds_per_text / per_char)))


class TopicJob:
    def __init__(self, data, collator):
        loader = DataLoader(
            data,
            BATCH,
            shuffle=True,
            num_workers=WORKERS,
            pin_memory=True,
            drop_last=True,
            persistent_workers=True,
            collate_fn=collator,
        )
        self.supply = self.supplied(loader)
        self.first = next(self.supply)
        with torch.device("cuda"):
            self.net = TopicNet()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-4, fused=True)

    def supplied(self, loader):
        while True:
            yield from loader

    def descend(self):
        ids, topic = next(self.supply)
        ids = ids.cuda(non_blocking=True)
        topic = topic.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = self.net(ids)
        loss = F.cross_entropy(out.float(), topic)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)

    def section(self, seconds, before):
        for _ in range(before):
            self.descend()
        torch.cuda.synchronize()
        t0, n = time.perf_counter(), 0
        while time.perf_counter() - t0 < seconds:
            self.descend()
            n += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - t0) / n


def main():
    torch.manual_seed(0)
    words, pieces = make_words()
    data, collator = Articles(words), PieceCollator(pieces)
    job = TopicJob(data, collator)
    a = job.section(float(sys.argv[1]), 14)
    print(json.dumps({"phase": "with"}), flush=True)
    collator.reach.value = reach_for(collator, data.texts, 2.2 * a * WORKERS / BATCH)
    b = job.section(float(sys.argv[2]), 10)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    main()
