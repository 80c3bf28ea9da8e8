"""The trainer's GPT in PyTorch, for comparison: same weights, same data, same optimizer. train_test.py runs it.

usage: train_reference.py START.safetensors SETTINGS.json TEXT  ->  a JSON line with the losses
"""
import json
import math
import struct
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


def read_safetensors(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, facts in header.items():
        if name == "__metadata__" or facts["dtype"] != "F32":
            continue
        first, last = facts["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(data[8 + length + first:8 + length + last]), dtype=torch.float32).reshape(facts["shape"])
    return tensors


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2) for part in self.attn["c_attn"](self.ln_1(x)).split(width, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, length, vocabulary):
        super().__init__()
        self.transformer = nn.ModuleDict({"wte": nn.Embedding(vocabulary, width), "wpe": nn.Embedding(length, width),
                                          "h": nn.ModuleList(Block(width, heads) for _ in range(layers)), "ln_f": nn.LayerNorm(width)})

    def forward(self, tokens, targets):
        parts = self.transformer
        x = parts["wte"](tokens) + parts["wpe"](torch.arange(tokens.shape[1]))
        for block in parts["h"]:
            x = block(x)
        logits = F.linear(parts["ln_f"](x), parts["wte"].weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def learning_rate(update, s):
    if update < s["warmup-steps"]:
        return s["learning-rate"] * (update + 1) / s["warmup-steps"]
    done = (update - s["warmup-steps"]) / (s["steps"] - s["warmup-steps"])
    return s["min-learning-rate"] + (s["learning-rate"] - s["min-learning-rate"]) * 0.5 * (1 + math.cos(math.pi * done))


def main(start, settings, text):
    torch.set_num_threads(1)
    s = json.load(open(settings))
    model = GPT(s["layers"], s["heads"], s["width"], s["sequence-length"], 256)
    weights = read_safetensors(start)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": s["weight-decay"]},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=s["learning-rate"], betas=(s["beta1"], s["beta2"]), eps=s["epsilon"])
    tokens = torch.tensor(list(open(text, "rb").read()))
    length, batch = s["sequence-length"], s["batch-size"]
    losses = []
    for update in range(s["steps"]):
        first = [(update * batch + i) * length for i in range(batch)]
        inputs = torch.stack([tokens[at:at + length] for at in first])
        targets = torch.stack([tokens[at + 1:at + 1 + length] for at in first])
        loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(update, s)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    print(json.dumps(losses))


main(*sys.argv[1:])
