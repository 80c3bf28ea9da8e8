"""How the time of a step grows with the batch, on a GPU: what a larger batch would bring.

usage: batch_curve.py LOCKSTEP FOLDER

Trains GPTs of several widths with 1, 2, 4 ... 64 samples a step while `lockstep record` watches, and writes
FOLDER/batch_curve.json: for each, samples/s and what a report could see (busy, SM, power).
"""

import json
import os
import subprocess
import sys
import time

import torch

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "lib")
)
from gpt_in_pytorch import GPT, parameter_groups  # noqa: E402

SHAPES = [(12, 768, 1024), (12, 768, 128), (6, 256, 256)]  # layers, width, length
BATCHES = [1, 2, 4, 8, 16, 32, 64]
SECONDS = 4
SETTLES_MS = 1200


def measure(layers, width, length):
    vocabulary = 50304
    with torch.device("cuda"):
        model = GPT(layers, width // 64, width, length, vocabulary)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=1e-4, fused=True)
    for batch in BATCHES:
        tokens = torch.randint(0, vocabulary, (batch, length), device="cuda")
        began, steps, count = None, 0, 0
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            if count == 5:
                torch.cuda.synchronize()
                began, begin_epoch = time.monotonic(), time.time()
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(tokens, tokens)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            count += 1
            if count % 4 == 0:
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        steps = count - 5
        yield {
            "layers": layers,
            "width": width,
            "length": length,
            "batch": batch,
            "samples_s": round(batch * steps / (time.monotonic() - began), 2),
            "from_ms": 1e3 * begin_epoch,
            "to_ms": 1e3 * time.time(),
        }


def means_between(records, from_ms, to_ms):
    """What was read meanwhile. SM activity is a mean since the last read, a second ago, so the first one has the batch
    before in it; power samples come two seconds at a time, with the moment of the first."""
    read = {"busy": [], "sm": [], "tensor": [], "power_w": []}
    began_ms = records[0]["started_unix_ns"] / 1e6
    from_ms, to_ms = from_ms + SETTLES_MS - began_ms, to_ms - began_ms
    for record in records[1:]:
        for gpu in record.get("gpus", []):
            if from_ms < record["t_ms"] < to_ms:
                for name in ("busy", "sm", "tensor"):
                    if gpu.get(name) is not None:
                        read[name].append(gpu[name])
            for count, mw in enumerate(gpu.get("power_samples_mw") or []):
                at = gpu["power_first_ms"] + count * gpu["power_sample_ms"]
                if from_ms < at < to_ms:
                    read["power_w"].append(mw / 1e3)
    return {name: round(sum(values) / len(values), 3) for name, values in read.items() if values}


def main(lockstep, folder):
    file = os.path.join(folder, "batch_curve.jsonl")
    recorder = subprocess.Popen([lockstep, "record", "--duration", "10m", "-o", file])
    time.sleep(1)
    rows = [row for shape in SHAPES for row in measure(*shape)]
    time.sleep(2.5)  # until the last power samples are read
    recorder.terminate()
    recorder.wait()
    with open(file, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for row in rows:
        row.update(means_between(records, row.pop("from_ms"), row.pop("to_ms")))
    with open(os.path.join(folder, "batch_curve.json"), "w", encoding="utf-8") as out:
        out.write("[" + ",\n ".join(json.dumps(row) for row in rows) + "]\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
