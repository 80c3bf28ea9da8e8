"""A deep, narrow decoder written out by hand; ends with tiny-batch fine-tuning."""

import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, DIM, HEADS, DEPTH, SEQ = 8192, 768, 12, 24, 768


class Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (h * self.scale).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.nq, self.nk = Norm(DIM // HEADS), Norm(DIM // HEADS)

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, HEADS, DIM // HEADS).transpose(1, 2)

    def forward(self, x, cos, sin):
        q = rotate(self.nq(self.split(self.q(x))), cos, sin)
        k = rotate(self.nk(self.split(self.k(x))), cos, sin)
        v = self.split(self.v(x))
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(x.shape))


class Gate(nn.Module):
    def __init__(self, hidden=2048):
        super().__init__()
        self.a, self.b = nn.Linear(DIM, hidden, bias=False), nn.Linear(DIM, hidden, bias=False)
        self.c = nn.Linear(hidden, DIM, bias=False)

    def forward(self, x):
        return self.c(F.silu(self.a(x)) * self.b(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.mix, self.gate = Norm(DIM), Norm(DIM), Mix(), Gate()

    def forward(self, x, cos, sin):
        x = x + self.mix(self.n1(x), cos, sin)
        return x + self.gate(self.n2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = Norm(DIM), nn.Linear(DIM, VOCAB, bias=False)
        half = DIM // HEADS // 2
        angle = torch.outer(torch.arange(SEQ).float(), 1e4 ** (-torch.arange(half).float() / half))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def step(model, opt, bank, batch):
    rows = bank[torch.randint(0, len(bank), (batch,), device="cuda")]
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)


def ms_per_sample(seconds, batch, model, opt, bank):
    for _ in range(12):
        step(model, opt, bank, batch)
    torch.cuda.synchronize()
    start, samples = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step(model, opt, bank, batch)
        samples += batch
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / samples


def main():
    torch.manual_seed(0)
    model = Decoder().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    bank = torch.randint(0, VOCAB, (8192, SEQ + 1), device="cuda")
    a = ms_per_sample(float(sys.argv[1]), 24, model, opt, bank)
    print(json.dumps({"phase": "with"}), flush=True)
    b = ms_per_sample(float(sys.argv[2]), 2, model, opt, bank)
    print(json.dumps({"without_ms": a, "with_ms": b}), flush=True)


if __name__ == "__main__":
    main()
