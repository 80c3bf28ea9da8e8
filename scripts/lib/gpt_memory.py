"""Step time and peak memory of GPT-2 in PyTorch as people write it: bf16 by autocast, fused AdamW, on a GPU.

usage: gpt_memory.py gpt2:8,gpt2-xl:4...
prints a JSON line for each
"""

import gc
import json
import sys
import time

import torch

import gpt_in_pytorch

SHAPES = {
    "gpt2": (12, 12, 768),
    "gpt2-medium": (24, 16, 1024),
    "gpt2-large": (36, 20, 1280),
    "gpt2-xl": (48, 25, 1600),
}
LENGTH, VOCABULARY, WARM, STEPS = 1024, 50304, 3, 12


def measure(name, batch):
    torch.cuda.reset_peak_memory_stats()
    with torch.device("cuda"):
        model = gpt_in_pytorch.GPT(*SHAPES[name], LENGTH, VOCABULARY)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.02)
    optimizer = torch.optim.AdamW(gpt_in_pytorch.parameter_groups(model, 0.1), lr=3e-4, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batch, LENGTH + 1)).pin_memory()
    for step in range(WARM + STEPS):
        if (
            step == WARM
        ):  # as a training runs: the host goes on to the next step while the GPU updates
            torch.cuda.synchronize()
            began = time.monotonic()
        there = tokens.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(there[:, :-1].contiguous(), there[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return {
        "model": name,
        "batch": batch,
        "ms": 1e3 * (time.monotonic() - began) / STEPS,
        "peak": torch.cuda.max_memory_allocated(),
    }


torch.set_float32_matmul_precision("high")
for run in sys.argv[1].split(","):
    name, batch = run.split(":")
    print(json.dumps(measure(name, int(batch))), flush=True)
    gc.collect()
    torch.cuda.empty_cache()
