"""BERT masked-LM pre-training on a flat token array, batches cut in the main process."""

import json
import sys
import time

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM

BATCH, SEQ, VOCAB, MASK = 48, 512, 30522, 103
device = torch.device("cuda")


class Corpus:
    def __init__(self, n_tokens=20_000_000, seed=0):
        self.rng = np.random.default_rng(seed)
        self.tokens = self.rng.integers(1000, VOCAB, n_tokens, dtype=np.int32)
        freq = 1.0 / np.arange(10, VOCAB + 10)
        self.unigram = freq / freq.sum()
        self.spans = 0

    def rows(self):
        starts = self.rng.integers(0, len(self.tokens) - SEQ, BATCH)
        return np.stack([self.tokens[s : s + SEQ] for s in starts]).astype(np.int64)

    def corrupt(self, row, target):
        for _ in range(self.spans):
            a = int(self.rng.integers(1, SEQ - 8))
            n = min(8, int(self.rng.geometric(0.3)))
            target[a : a + n] = row[a : a + n]
            row[a : a + n] = self.rng.choice(VOCAB, n, p=self.unigram)
            if self.rng.random() < 0.5:
                row[a] = MASK

    def get_batch(self):
        x = self.rows()
        y = np.full_like(x, -100)
        if self.spans:
            for row, target in zip(x, y):
                self.corrupt(row, target)
        else:
            hit = self.rng.random(x.shape) < 0.15
            y[hit] = x[hit]
            x[hit] = MASK
        pair = (torch.from_numpy(x).pin_memory(), torch.from_numpy(y).pin_memory())
        return tuple(t.to(device, non_blocking=True) for t in pair)


def spans_for(corpus, seconds_per_row):
    t = time.perf_counter()
    for _ in range(40):
        corpus.rng.choice(VOCAB, 3, p=corpus.unigram)
    one = (time.perf_counter() - t) / 40
    return int(np.clip(round(seconds_per_row / one), 4, 100))


def step(model, opt, sched, corpus):
    x, y = corpus.get_batch()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=x, labels=y).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    opt.zero_grad(set_to_none=True)
    return loss.detach()


def stretch(seconds, lead_in, *what):
    for _ in range(lead_in):
        step(*what)
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    count = 0
    while True:
        step(*what)
        count += 1
        if time.perf_counter() - t0 >= seconds:
            break
    torch.cuda.synchronize()
    return (time.perf_counter() - t0) / count


if __name__ == "__main__":
    without_s, with_s = map(float, sys.argv[1:3])
    torch.manual_seed(0)
    corpus = Corpus()
    model = BertForMaskedLM(BertConfig(vocab_size=VOCAB)).to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 200))

    before = stretch(without_s, 12, model, opt, sched, corpus)
    print('{"phase": "with"}', flush=True)
    corpus.spans = spans_for(corpus, 2.2 * before / BATCH)
    after = stretch(with_s, 4, model, opt, sched, corpus)
    print(json.dumps({"without_ms": 1e3 * before, "with_ms": 1e3 * after}), flush=True)
