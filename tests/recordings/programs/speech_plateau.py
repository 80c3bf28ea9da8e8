"""Masked spectrogram model; the learning rate is decided by an outside policy command."""

import json
import subprocess
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, FRAMES, MELS, WIDTH = 32, 512, 80, 1024


class Spectrograms(Dataset):
    def __init__(self, n=1000):
        self.mels = torch.randn(n, FRAMES, MELS, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return 500_000

    def __getitem__(self, i):
        return self.mels[i % len(self.mels)]


class SpeechModel(nn.Module):
    def __init__(self, depth=16):
        super().__init__()
        self.inp, self.out = nn.Linear(MELS, WIDTH), nn.Linear(WIDTH, MELS)
        self.where = nn.Parameter(0.02 * torch.randn(1, FRAMES, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 16, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, x):
        return self.out(self.enc(self.inp(x) + self.where))


class PlateauPolicy:
    """Asks the policy command for the rate, and whether to stop, every few steps."""

    def __init__(self, opt, every=4):
        self.opt, self.every = opt, every
        self.takes = 0.0
        self.best, self.bad = float("inf"), 0

    def ask_command(self, rate):
        script = 'sleep "$1"; echo "$2"'
        answer = subprocess.run(
            ["/bin/sh", "-c", script, "policy", f"{self.takes:.3f}", f"{rate:.8f}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(answer.stdout)

    def consult(self, loss, step):
        if not self.takes or step % self.every:
            return
        value = loss.item()
        self.bad = 0 if value < self.best else self.bad + 1
        self.best = min(self.best, value)
        rate = self.ask_command(1e-4 * (0.5 if self.bad > 50 else 1.0))
        for group in self.opt.param_groups:
            group["lr"] = rate


class SpeechJob:
    def __init__(self):
        loader = DataLoader(
            Spectrograms(),
            BATCH,
            shuffle=True,
            num_workers=6,
            pin_memory=True,
            drop_last=True,
            persistent_workers=True,
        )
        self.batches = self.around(loader)
        self.first = next(self.batches)
        with torch.device("cuda"):
            self.net = SpeechModel().train()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-4, fused=True)
        self.policy = PlateauPolicy(self.opt)
        self.steps = 0

    def around(self, loader):
        while True:
            yield from loader

    def work(self):
        mel = next(self.batches).cuda(non_blocking=True)
        hide = torch.rand(BATCH, FRAMES, 1, device="cuda") < 0.3
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = self.net(mel.masked_fill(hide, 0.0))
        loss = ((guess.float() - mel).square() * hide).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.steps += 1
        self.policy.consult(loss.detach(), self.steps)

    def keep_on(self, seconds, extra):
        for _ in range(extra):
            self.work()
        torch.cuda.synchronize()
        t0, n0 = time.perf_counter(), self.steps
        while time.perf_counter() - t0 < seconds:
            self.work()
        torch.cuda.synchronize()
        return (time.perf_counter() - t0) / (self.steps - n0)


def main():
    torch.manual_seed(0)
    job = SpeechJob()
    a = job.keep_on(float(sys.argv[1]), 14)
    print(json.dumps({"phase": "with"}), flush=True)
    job.policy.takes = 1.2 * job.policy.every * a
    b = job.keep_on(float(sys.argv[2]), 5)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    main()
