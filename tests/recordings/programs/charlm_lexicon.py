"""Character LSTM with a large in-memory lexicon kept beside the model."""

import gc
import json
import random
import sys
import time

import torch
from torch import nn

BATCH, SEQ, VOCAB = 256, 128, 256


class Entry:
    __slots__ = ("key", "links", "owner", "score")

    def __init__(self, key, owner):
        self.key = key
        self.links = [owner]
        self.owner = owner
        self.score = 0.0


class Lexicon:
    def __init__(self, size):
        self.entries = []
        last = None
        for i in range(size):
            last = Entry(i, last)
            self.entries.append(last)

    def touch(self, how_many):
        for _ in range(how_many):
            e = self.entries[random.randrange(len(self.entries))]
            e.score += 1.0


class CharLM(nn.Module):
    def __init__(self, hidden=2048):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 1024)
        self.rnn = nn.LSTM(1024, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, VOCAB)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.head(h)


def sample(text):
    at = torch.randint(0, len(text) - SEQ - 1, (BATCH, 1), device="cuda")
    window = text[at + torch.arange(SEQ + 1, device="cuda")]
    return window[:, :-1], window[:, 1:]


class Loop:
    def __init__(self):
        self.text = torch.randint(0, VOCAB, (20_000_000,), device="cuda")
        self.model = CharLM().to(device="cuda", dtype=torch.bfloat16)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.lexicon = Lexicon(1_800_000)
        self.tidy_every = None
        self.steps = 0

    def tidy(self):
        if self.tidy_every and self.steps % self.tidy_every == 0:
            return gc.collect()

    def step(self):
        x, y = sample(self.text)
        logits = self.model(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.lexicon.touch(50)
        self.steps += 1
        self.tidy()

    def run(self, seconds, settle):
        for _ in range(settle):
            self.step()
        torch.cuda.synchronize()
        begin, first = time.perf_counter(), self.steps
        while time.perf_counter() - begin < seconds:
            self.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / (self.steps - first)


def sweep_time():
    t = time.perf_counter()
    gc.collect()
    return time.perf_counter() - t


def main():
    loop = Loop()
    gc.collect()
    a = loop.run(float(sys.argv[1]), 12)
    print(json.dumps({"phase": "with"}), flush=True)
    loop.tidy_every = max(1, round(sweep_time() / (1.2 * a)))
    b = loop.run(float(sys.argv[2]), 4)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    main()
