"""Encoder-decoder translation model; samples of the output are scored while training."""

import json
import math
import random
import string
import sys
import time
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCAB, LEN, BATCH = 12000, 128, 80


class Pairs(Dataset):
    def __init__(self, n=4000):
        g = torch.Generator().manual_seed(0)
        self.src = torch.randint(3, VOCAB, (n, LEN), generator=g)
        self.tgt = torch.randint(3, VOCAB, (n, LEN + 1), generator=g)

    def __len__(self):
        return 800_000

    def __getitem__(self, i):
        return self.src[i % len(self.src)], self.tgt[i % len(self.tgt)]


class Translator(nn.Module):
    def __init__(self, d=1024, heads=16, layers=6):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(0.02 * torch.randn(1, LEN, d))
        self.core = nn.Transformer(
            d,
            heads,
            layers,
            layers,
            4 * d,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.out = nn.Linear(d, VOCAB)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(LEN))

    def forward(self, src, tgt):
        s, t = self.emb(src) + self.pos, self.emb(tgt) + self.pos
        return self.out(self.core(s, t, tgt_mask=self.causal, tgt_is_causal=True))


def spell_vocabulary(seed=0):
    rnd = random.Random(seed)
    return ["".join(rnd.choices(string.ascii_lowercase, k=rnd.randint(3, 7))) for _ in range(VOCAB)]


def overlap(hyp, ref, n):
    h = Counter(tuple(hyp[i : i + n]) for i in range(len(hyp) - n + 1))
    r = Counter(tuple(ref[i : i + n]) for i in range(len(ref) - n + 1))
    return sum(min(c, r[g]) for g, c in h.items()), max(1, sum(h.values())), max(1, sum(r.values()))


def corpus_score(hyps, refs):
    logs = 0.0
    for n in range(1, 5):
        good = total = 0
        for h, r in zip(hyps, refs):
            g, t, _ = overlap(h, r, n)
            good, total = good + g, total + t
        logs += math.log((good + 1) / (total + 1)) / 4
    return math.exp(logs)


def letter_score(hyps, refs, words):
    f = 0.0
    for h, r in zip(hyps, refs):
        a, b = " ".join(words[i] for i in h), " ".join(words[i] for i in r)
        for n in range(2, 5):
            g, th, tr = overlap(a, b, n)
            f += 2 * g / (th + tr)
    return f / (3 * len(hyps))


class Session:
    def __init__(self):
        self.loader = DataLoader(
            Pairs(), BATCH, shuffle=True, num_workers=4, pin_memory=True, drop_last=True
        )
        self.batches = iter(self.loader)
        self.model = Translator().cuda().train()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.words = spell_vocabulary()
        self.scoring, self.scores = False, []

    def step(self):
        src, tgt = next(self.batches)
        s, t = src.cuda(non_blocking=True), tgt.cuda(non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(s, t[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), t[:, 1:].flatten())
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        if self.scoring:
            self.grade(logits.detach().argmax(-1), tgt[:, 1:])

    def grade(self, guess, truth):
        hyps, refs = guess.tolist(), truth.tolist()
        self.scores.append(
            (corpus_score(hyps[:60], refs[:60]), letter_score(hyps[:12], refs[:12], self.words))
        )


def timed(session, seconds, lead):
    for _ in range(lead):
        session.step()
    torch.cuda.synchronize()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        session.step()
        n += 1
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / n


if __name__ == "__main__":
    session = Session()
    without_ms = timed(session, float(sys.argv[1]), 12)
    print(json.dumps({"phase": "with"}), flush=True)
    session.scoring = True
    with_ms = timed(session, float(sys.argv[2]), 4)
    print(json.dumps({"without_ms": without_ms, "with_ms": with_ms}), flush=True)
