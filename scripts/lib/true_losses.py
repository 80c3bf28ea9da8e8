#!/usr/bin/env python3
"""What a fault truly costs on a GPU, beside what lockstep's ledger says of it.

usage: scripts/lib/true_losses.py LOCKSTEP [FAULT...]     on a machine with a GPU, by a Python that has torch
       scripts/lib/true_losses.py --train FAULT SECONDS   the training that is watched

GPT-2 124M in plain PyTorch, with one fault or none. The true loss is that of steps per second against the run without
a fault; the ledger's is what `lockstep diagnose -- CMD` gives to all parts but `working`.
"""

import gc
import json
import os
import subprocess
import sys
import time

FAULTS = {
    "none": "nothing is wrong",
    "no-workers": "no loader workers, fast data: nothing is lost",
    "sync": "the host waits for the GPU in every step, and reads values",
    "slow-logging": "50 ms of sleep in every step's logging",
    "saving": "weights and optimizer are saved every 40 steps",
    "slow-loader": "each sample takes 60 ms, with 8 workers",
    "collector": "gc.collect() in every step, with three million lists",
}
WATCH_S, TRAIN_S, WARM_UP = 10, 24, 20
LENGTH, VOCABULARY, BATCH = 1024, 50304, 16


def train(fault, seconds):
    import torch

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from gpt_in_pytorch import GPT, parameter_groups

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 1_000_000

        def __getitem__(self, index):
            if fault == "slow-loader":
                time.sleep(0.06)
            return torch.randint(0, VOCABULARY, (LENGTH + 1,))

    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = GPT(12, 12, 768, LENGTH, VOCABULARY)
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=1e-4, fused=True)
    loader = torch.utils.data.DataLoader(
        Samples(), batch_size=BATCH, num_workers=0 if fault == "no-workers" else 8, pin_memory=True
    )
    kept = [[i] for i in range(3_000_000)] if fault == "collector" else []
    until, began, steps = time.monotonic() + seconds, None, 0
    for count, tokens in enumerate(loader):
        if count == WARM_UP:
            began, steps = time.monotonic(), 0
        tokens = tokens.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if fault == "slow-logging":
            loss.item()
            time.sleep(0.05)
        elif fault == "sync":
            torch.cuda.synchronize()
            float(sum(weight.float().norm() for weight in list(model.parameters())[:40]))
        elif fault == "saving" and count % 40 == 39:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "saved.pt"
            )
        elif fault == "collector":
            gc.collect()
        steps += 1
        if time.monotonic() > until:
            break
    torch.cuda.synchronize()
    rate = steps / (time.monotonic() - began) if began else 0.0
    print(f"steps per second: {rate:.3f}", file=sys.stderr)
    del kept
    os._exit(0)  # workers of an endless loader


def watch(lockstep, fault):
    """(steps per second, ledger's shares, codes of findings)"""
    done = subprocess.run(
        [lockstep, "diagnose", "--json", "--quiet", "--duration", f"{WATCH_S}s", "--"]
        + [sys.executable, os.path.abspath(__file__), "--train", fault, str(TRAIN_S)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("steps per second: ")]
    if done.returncode not in (0, 1) or not told:
        sys.exit(f"{fault}: lockstep ended with {done.returncode}\n{done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    shares = {part["name"]: part["share"] for part in report["jobs"][0]["ledger"]["parts"]}
    return float(told[0].split()[-1]), shares, [f["code"] for f in report["findings"]]


def main(words):
    if words[:1] == ["--train"] and len(words) == 3:
        train(words[1], float(words[2]))
    if not words or words[0].startswith("-") or set(words[1:]) - set(FAULTS):
        sys.exit(__doc__ + "\nfaults: " + ", ".join(FAULTS))
    wanted = ["none"] + [
        name for name in FAULTS if name in (words[1:] or FAULTS) and name != "none"
    ]
    print(f"{'fault':14}{'steps/s':>9}{'true loss':>11}{'ledger':>9}  parts; findings")
    free = None
    for fault in wanted:
        rate, shares, codes = watch(words[0], fault)
        free = free or rate
        lost = 1 - shares.pop("working")
        parts = ", ".join(
            f"{name} {share:.0%}" for name, share in sorted(shares.items()) if share >= 0.01
        )
        print(
            f"{fault:14}{rate:>9.2f}{1 - rate / free:>11.0%}{lost:>9.0%}  {parts or '-'}; {' '.join(codes) or '-'}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
