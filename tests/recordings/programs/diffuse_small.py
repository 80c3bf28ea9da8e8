"""Pixel diffusion on 64x64 images; progress goes to a tracking service."""

import json
import math
import os
import subprocess
import sys
import time
import urllib.request

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BOOK = f"progress_{os.getpid()}.jsonl"
TRACKER = r"""
import http.server, os, sys, threading, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(0.4)
        self.send_response(200)
        self.send_header("Content-Length", "2"), self.end_headers()
        self.wfile.write(b"ok")
    log_message = lambda self, *args: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
"""


class Res(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(32, cin), nn.GroupNorm(32, cout)
        self.c1, self.c2 = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.t = nn.Linear(tdim, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self, base=128, mults=(1, 2, 3), tdim=512):
        super().__init__()
        self.base = base
        self.tmlp = nn.Sequential(
            nn.Linear(base, tdim), nn.SiLU(), nn.Linear(tdim, tdim), nn.SiLU()
        )
        self.first = nn.Conv2d(3, base, 3, padding=1)
        self.down, self.up, skips, c = nn.ModuleList(), nn.ModuleList(), [base], base
        for i, m in enumerate(mults):
            if i > 0:
                self.down.append(nn.Conv2d(c, c, 3, stride=2, padding=1))
                skips.append(c)
            for cin in (c, base * m):
                self.down.append(Res(cin, base * m, tdim))
                skips.append(base * m)
            c = base * m
        self.mid = nn.ModuleList([Res(c, c, tdim), Res(c, c, tdim)])
        for i, m in reversed(list(enumerate(mults))):
            for _ in range(3):
                self.up.append(Res(c + skips.pop(), base * m, tdim))
                c = base * m
            if i > 0:
                self.up.append(
                    nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(c, c, 3, padding=1))
                )
        self.last = nn.Sequential(nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        f = torch.exp(
            -math.log(1e4) * torch.arange(self.base // 2, device=x.device) / (self.base // 2)
        )
        arg = t[:, None].float() * f[None]
        emb = self.tmlp(torch.cat([arg.sin(), arg.cos()], dim=1))
        kept = [x := self.first(x)]
        for m in self.down:
            x = m(x, emb) if isinstance(m, Res) else m(x)
            kept.append(x)
        x = self.mid[1](self.mid[0](x, emb), emb)
        for m in self.up:
            x = m(torch.cat([x, kept.pop()], dim=1), emb) if isinstance(m, Res) else m(x)
        return self.last(x)


class Trainer:
    def __init__(self, port):
        pool = torch.randint(0, 256, (20_000, 3, 64, 64), dtype=torch.uint8)
        self.loader = DataLoader(
            TensorDataset(pool),
            48,
            shuffle=True,
            num_workers=6,
            pin_memory=True,
            drop_last=True,
            persistent_workers=True,
        )
        self.batches = self.endless()
        self.net = UNet().cuda()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-4, fused=True)
        self.abar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0).cuda()
        self.url, self.tracking, self.n = f"http://127.0.0.1:{port}/runs/1", False, 0
        self.web = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.book = open(BOOK, "w")

    def endless(self):
        while True:
            yield from (x for (x,) in self.loader)

    def report_progress(self, loss):
        self.n += 1
        row = {"step": self.n, "time": time.time()}
        if self.tracking and self.n % 4 == 0:
            row["loss"] = loss.item()
            req = urllib.request.Request(self.url, data=json.dumps(row).encode(), method="POST")
            with self.web.open(req, timeout=20) as answer:
                row["ack"] = answer.read().decode()
        self.book.write(json.dumps(row) + "\n")

    def step(self):
        x = next(self.batches).cuda(non_blocking=True).float() / 127.5 - 1
        t = torch.randint(0, 1000, (len(x),), device="cuda")
        noise = torch.randn_like(x)
        a = self.abar[t][:, None, None, None]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = self.net(a.sqrt() * x + (1 - a).sqrt() * noise, t)
        loss = F.mse_loss(guess.float(), noise)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.report_progress(loss.detach())

    def fit(self, seconds, skip):
        for _ in range(skip):
            self.step()
        torch.cuda.synchronize()
        t0, n0 = time.perf_counter(), self.n
        while time.perf_counter() - t0 < seconds:
            self.step()
        torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - t0) / (self.n - n0)


if __name__ == "__main__":
    torch.backends.cudnn.benchmark = True
    service = subprocess.Popen(
        [sys.executable, "-c", TRACKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        trainer = Trainer(int(service.stdout.readline()))
        a = trainer.fit(float(sys.argv[1]), 12)
        print('{"phase": "with"}', flush=True)
        trainer.tracking = True
        b = trainer.fit(float(sys.argv[2]), 5)
        print(json.dumps({"without_ms": a, "with_ms": b}), flush=True)
    finally:
        service.kill(), service.wait()
        if os.path.exists(BOOK):
            os.remove(BOOK)
