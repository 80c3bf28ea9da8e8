"""The trainer's GPT in PyTorch, for comparison: same weights, same data, same optimizer. train_test.py runs it.

usage: train_reference.py START.safetensors SETTINGS.json TEXT [DEVICE PRECISION]  ->  a JSON line with the losses
PRECISION: fp32, or bf16 or fp16 by autocast, fp16 with a GradScaler
"""

import json
import math
import os
import struct
import sys

import torch

sys.path.insert(0, os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "scripts/lib"))
from gpt_in_pytorch import GPT, parameter_groups  # noqa: E402


def read_safetensors(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, facts in header.items():
        if name == "__metadata__" or facts["dtype"] != "F32":
            continue
        first, last = facts["data_offsets"]
        tensors[name] = torch.frombuffer(
            bytearray(data[8 + length + first : 8 + length + last]), dtype=torch.float32
        ).reshape(facts["shape"])
    return tensors


def learning_rate(update, s):
    if update < s["warmup-steps"]:
        return s["learning-rate"] * (update + 1) / s["warmup-steps"]
    done = (update - s["warmup-steps"]) / (s["steps"] - s["warmup-steps"])
    return s["min-learning-rate"] + (s["learning-rate"] - s["min-learning-rate"]) * 0.5 * (
        1 + math.cos(math.pi * done)
    )


def main(start, settings, text, device="cpu", precision="fp32"):
    torch.set_num_threads(1)
    s = json.load(open(settings))
    model = GPT(s["layers"], s["heads"], s["width"], s["sequence-length"], 256).to(device)
    weights = read_safetensors(start)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    optimizer = torch.optim.AdamW(
        parameter_groups(model, s["weight-decay"]),
        lr=s["learning-rate"],
        betas=(s["beta1"], s["beta2"]),
        eps=s["epsilon"],
    )
    tokens = torch.tensor(list(open(text, "rb").read()))
    length, batch = s["sequence-length"], s["batch-size"]
    scaler = torch.amp.GradScaler(device, enabled=precision == "fp16")
    losses = []
    for update in range(s["steps"]):
        first = [(update * batch + i) * length for i in range(batch)]
        inputs = torch.stack([tokens[at : at + length] for at in first])
        targets = torch.stack([tokens[at + 1 : at + 1 + length] for at in first])
        with torch.autocast(
            device,
            torch.float16 if precision == "fp16" else torch.bfloat16,
            enabled=precision != "fp32",
        ):
            loss = model(inputs.to(device), targets.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), s["clip"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(update, s)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    print(json.dumps(losses))


main(*sys.argv[1:])
