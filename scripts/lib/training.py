"""lockstep-train against the same model in PyTorch Python: on the CPU one rank and two, a core
each; on a GPU GPT-2 124M in bf16.
"""

import json
import os
import shutil
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
# layers, heads, width, length, vocabulary, batch, steps
MODELS = {"tiny": (4, 4, 128, 128, 256, 16, 14), "small": (6, 6, 384, 256, 256, 2, 8)}


def own_rate(lockstep, name, ranks):
    layers, heads, width, length, vocabulary, batch, steps = MODELS[name]
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    line = [
        trainer,
        "--device",
        "cpu",
        "--model",
        name,
        "--batch-size",
        str(batch),
        "--steps",
        str(steps),
        "--preload",
        "--workers",
        "0",
        "--dataset-size",
        str(batch * ranks * steps),
        "--bucket-mb",
        "1",
        "--first-bucket-mb",
        "1",
        "--log-every",
        "3",
        "--log-format",
        "json",
        "--resume",
        "never",
    ]
    if ranks > 1:
        line = [
            lockstep,
            "launch",
            "--standalone",
            "--no-checks",
            "--quiet",
            f"--nproc-per-node={ranks}",
            "--no-python",
        ] + line
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    rates = [
        json.loads(text)["tokens_per_s"] for text in done.stdout.splitlines() if "done" not in text
    ]
    return statistics.median(rates[1:])


def peer_rate(torch_bin, name, ranks):
    script = [os.path.join(HERE, "gpt_in_pytorch.py"), *map(str, MODELS[name])]
    line = (
        [os.path.join(torch_bin, "python"), *script]
        if ranks == 1
        else [
            os.path.join(torch_bin, "torchrun"),
            "--standalone",
            f"--nproc-per-node={ranks}",
            *script,
        ]
    )
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PATH=torch_bin + ":" + os.environ["PATH"]),
    )
    return float(done.stdout.split("tokens/s")[1])


# the vocabulary as PyTorch's best practice pads it; lockstep-train pads by itself
GPT2 = (12, 12, 768, 1024, 50304)
GPU_BATCHES = (32, 64)


def own_rate_on_gpu(lockstep, batch, flags):
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    line = [
        trainer,
        "--device",
        "cuda",
        "--model",
        "gpt2-124M",
        "--sequence-length",
        "1024",
        "--precision",
        "bf16",
        "--batch-size",
        str(batch),
        "--steps",
        "80",
        "--dataset-size",
        str(80 * batch),
        "--workers",
        "4",
        "--log-every",
        "10",
        "--log-format",
        "json",
        "--resume",
        "never",
        *flags,
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    rates = [
        json.loads(text)["tokens_per_s"]
        for text in done.stdout.splitlines()
        if text.startswith("{") and "done" not in text
    ]
    return statistics.median(rates[2:])


def peer_rates_on_gpu(torch_bin, way):
    script = [
        os.path.join(HERE, "gpt_in_pytorch.py"),
        *map(str, GPT2),
        ",".join(map(str, GPU_BATCHES)),
        "10",
        way,
    ]
    done = subprocess.run(
        [os.path.join(torch_bin, "python3"), *script], capture_output=True, text=True, check=True
    )
    return {
        int(line.split()[1]): float(line.split()[3])
        for line in done.stdout.splitlines()
        if line.startswith("batch ")
    }


def bench_trainer_on_gpu(lockstep, torch_bin, rounds):
    if (
        not shutil.which("nvidia-smi")
        or subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode != 0
    ):
        print("\nGPU: left out, nvidia-smi shows none")
        return
    ways = {
        "lockstep-train": ["--cuda-graphs"],
        "without graphs": [],
        "ATen's kernels": ["--no-fused-kernels"],
    }
    rates = {}
    for _ in range(rounds):
        for way in ("eager", "compile"):
            for batch, rate in peer_rates_on_gpu(torch_bin, way).items():
                rates.setdefault((f"PyTorch {way}", batch), []).append(rate)
        for name, flags in ways.items():
            for batch in GPU_BATCHES:
                rates.setdefault((name, batch), []).append(own_rate_on_gpu(lockstep, batch, flags))
    print(
        f"\ntokens/s of GPT-2 124M on one GPU, 1024 tokens a sample, bf16 (medians of {rounds}); PyTorch: autocast, fused AdamW"
    )
    for batch in GPU_BATCHES:
        compiled = statistics.median(rates["PyTorch compile", batch])
        for name in ("PyTorch eager", "PyTorch compile", *reversed(ways)):
            seen = rates[name, batch]
            print(
                f"  batch {batch}  {name:16} {statistics.median(seen):8.0f} ({min(seen):.0f} to {max(seen):.0f})   {statistics.median(seen) / compiled:.2f}x of torch.compile",
                flush=True,
            )


def bench_trainer(lockstep, torch_bin, rounds):
    bench_trainer_on_cpu(lockstep, torch_bin, rounds)
    bench_trainer_on_gpu(lockstep, torch_bin, rounds)


def bench_trainer_on_cpu(lockstep, torch_bin, rounds):
    print(
        "\ntokens/s on the CPU, a core each (medians); PyTorch: eager, fused AdamW, DDP with the same buckets"
    )
    for name in MODELS:
        for ranks in (1, 2):
            own, peer = [], []
            for _ in range(max(3, rounds)):
                own.append(own_rate(lockstep, name, ranks))
                peer.append(peer_rate(torch_bin, name, ranks))
            ratios = sorted(a / b for a, b in zip(own, peer))
            print(
                f"  {name:6} {ranks} {'rank ' if ranks == 1 else 'ranks'} lockstep-train {statistics.median(own):8.0f}   PyTorch {statistics.median(peer):8.0f}   "
                f"{statistics.median(ratios):.2f}x (goal 1.0x; {ratios[0]:.2f} to {ratios[-1]:.2f})",
                flush=True,
            )
