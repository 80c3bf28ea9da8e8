"""The reference trainer's GPT in PyTorch, as people write it: what lockstep-train is compared with.

usage: gpt_in_pytorch.py LAYERS HEADS WIDTH LENGTH VOCABULARY BATCH STEPS   on the CPU, one process or as a rank of several (DDP over Gloo)
       gpt_in_pytorch.py LAYERS HEADS WIDTH LENGTH VOCABULARY BATCH,BATCH... STEPS eager|compile|max-autotune   on a GPU, in bf16
trains on random tokens and prints tokens/s
"""

import os
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict(
            {"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)}
        )
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}
        )

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, -1).transpose(1, 2)
            for part in self.attn["c_attn"](self.ln_1(x)).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, length, vocabulary):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, width),
                "wpe": nn.Embedding(length, width),
                "h": nn.ModuleList(Block(width, heads) for _ in range(layers)),
                "ln_f": nn.LayerNorm(width),
            }
        )

    def forward(self, tokens, targets):
        parts = self.transformer
        x = parts["wte"](tokens) + parts["wpe"](torch.arange(tokens.shape[1], device=tokens.device))
        for block in parts["h"]:
            x = block(x)
        logits = F.linear(parts["ln_f"](x), parts["wte"].weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def parameter_groups(model, weight_decay):
    """Matrices decay, vectors do not."""
    return [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]


def main(layers, heads, width, length, vocabulary, batch, steps):
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})  # as a virtual GPU has its core
    torch.manual_seed(1)
    model = GPT(layers, heads, width, length, vocabulary)
    if world > 1:
        os.sched_setaffinity(0, cores)  # Gloo's threads inherit all cores, as lockstep-train's do
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True, bucket_cap_mb=1
        )
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    optimizer = torch.optim.AdamW(
        parameter_groups(model, 0.1), lr=3e-4, betas=(0.9, 0.95), fused=True
    )
    tokens = torch.randint(0, vocabulary, (batch, length + 1))
    times = []
    for _ in range(steps):
        began = time.monotonic()
        model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.monotonic() - began)
    if rank == 0:
        print(f"tokens/s {batch * length * world / statistics.median(times[2:])}", flush=True)
    if world > 1:
        torch.distributed.destroy_process_group()


def main_on_gpu(layers, heads, width, length, vocabulary, batches, steps, way):
    for batch in map(int, batches.split(",")):
        rate = rate_on_gpu(
            *map(int, (layers, heads, width, length, vocabulary)), batch, int(steps), way
        )
        print(f"batch {batch} tokens/s {rate}", flush=True)


def rate_on_gpu(layers, heads, width, length, vocabulary, batch, steps, way):
    """As nanoGPT does it: TF32 allowed, autocast to bf16, fused AdamW, pinned batches; nothing is
    read back within a step.
    """
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = GPT(layers, heads, width, length, vocabulary)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.02)
    run = (
        model
        if way == "eager"
        else torch.compile(model, mode=None if way == "compile" else "max-autotune")
    )
    optimizer = torch.optim.AdamW(
        parameter_groups(model, 0.1), lr=3e-4, betas=(0.9, 0.95), fused=True
    )
    batches = [torch.randint(0, vocabulary, (batch, length + 1)).pin_memory() for _ in range(8)]

    def step(index):
        tokens = batches[index % len(batches)].to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for index in range(10):
        step(index)
    rates = []
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.monotonic()
        for index in range(steps):
            step(index)
        torch.cuda.synchronize()
        rates.append(batch * length * steps / (time.monotonic() - began))
    return statistics.median(rates)


if __name__ == "__main__":
    if len(sys.argv) > 8:
        main_on_gpu(*sys.argv[1:])
    else:
        main(*map(int, sys.argv[1:]))
