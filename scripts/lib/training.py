"""lockstep-train against the same model in PyTorch Python, on the CPU: one rank and two, a core each."""
import json
import os
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
# layers, heads, width, length, vocabulary, batch, steps
MODELS = {"tiny": (4, 4, 128, 128, 256, 16, 14), "small": (6, 6, 384, 256, 256, 2, 8)}


def own_rate(lockstep, name, ranks):
    layers, heads, width, length, vocabulary, batch, steps = MODELS[name]
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    line = [trainer, "--device", "cpu", "--model", name, "--batch-size", str(batch), "--steps", str(steps), "--preload", "--workers", "0", "--dataset-size", str(batch * ranks * steps),
            "--bucket-mb", "1", "--first-bucket-mb", "1", "--log-every", "3", "--log-format", "json", "--resume", "never"]
    if ranks > 1:
        line = [lockstep, "launch", "--standalone", "--no-checks", "--quiet", f"--nproc-per-node={ranks}", "--no-python"] + line
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    rates = [json.loads(text)["tokens_per_s"] for text in done.stdout.splitlines() if "done" not in text]
    return statistics.median(rates[1:])


def peer_rate(torch_bin, name, ranks):
    script = [os.path.join(HERE, "gpt_in_pytorch.py"), *map(str, MODELS[name])]
    line = [os.path.join(torch_bin, "python"), *script] if ranks == 1 else [os.path.join(torch_bin, "torchrun"), "--standalone", f"--nproc-per-node={ranks}", *script]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=dict(os.environ, PATH=torch_bin + ":" + os.environ["PATH"]))
    return float(done.stdout.split("tokens/s")[1])


def bench_trainer(lockstep, torch_bin, rounds):
    print("\ntokens/s on the CPU, a core each (medians); PyTorch: eager, fused AdamW, DDP with the same buckets")
    for name in MODELS:
        for ranks in (1, 2):
            own, peer = [], []
            for _ in range(max(3, rounds)):
                own.append(own_rate(lockstep, name, ranks))
                peer.append(peer_rate(torch_bin, name, ranks))
            ratios = sorted(a / b for a, b in zip(own, peer))
            print(f"  {name:6} {ranks} {'rank ' if ranks == 1 else 'ranks'} lockstep-train {statistics.median(own):8.0f}   PyTorch {statistics.median(peer):8.0f}   "
                  f"{statistics.median(ratios):.2f}x (goal 1.0x; {ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
