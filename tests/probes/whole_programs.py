"""Programs as people run them, of kinds that are no plain loop. What each prints must be the same
with the probe and without.

usage: whole_programs.py sharded|compiled_update|skipping_scaler|server|logs_to_wandb|uneven_parts
(sharded: under torchrun)
"""

import os
import sys
import threading
import time
import urllib.request

import torch

STEPS = 60


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))


def loss_of(net):
    return net(torch.randn(16, 64)).square().mean()


def sharded():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = model()
    for layer in (net[0], net[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())
    for _ in range(STEPS):
        loss = loss_of(net)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"{loss.item():.6f}")
    dist.destroy_process_group()


def compiled_update():
    """The optimizer's step is compiled, and tells nobody."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    update = torch.compile(lambda: optimizer.step(), backend="eager")
    for _ in range(STEPS):
        loss = loss_of(net)
        loss.backward()
        update()
        optimizer.zero_grad()
    print(f"{loss.item():.6f}", sum(torch._dynamo.utils.counters["graph_break"].values()))


def skipping_scaler():
    """Every tenth loss is infinite: the scaler leaves that step out."""
    net, scaler = model(), torch.amp.GradScaler("cpu", init_scale=2.0**16)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    skipped = 0
    for step in range(STEPS):
        loss = loss_of(net) * (float("inf") if step % 10 == 9 else 1)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        skipped += scaler.get_scale() < before
    print("skipped", skipped)


def server():
    import http.server

    net = model().eval()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with torch.inference_mode():
                words = f"{net(torch.ones(1, 64)).sum().item():.5f}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{serving.server_address[1]}"
        answers = {urllib.request.urlopen(address).read() for _ in range(100)}
        print(answers)
        serving.shutdown()


def logs_to_wandb():
    import wandb

    run = wandb.init(mode="offline", project="p", dir=".", settings=wandb.Settings(silent=True))
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(STEPS):
        loss = loss_of(net)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.log({"loss": loss.item()})
    run.finish()
    print(f"{loss.item():.6f}")


class Slow(torch.autograd.Function):
    """Sleeps in both passes, and changes nothing."""

    @staticmethod
    def forward(context, x, forward_s, backward_s):
        context.backward_s = backward_s
        time.sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.backward_s)
        return gradient.clone(), None, None


class Part(torch.nn.Module):
    def __init__(self, forward_s, backward_s):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)
        self.sleeps = (forward_s, backward_s)

    def forward(self, x=None):
        return {"x": Slow.apply(self.inner(x), *self.sleeps)}


class UnevenParts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.names = torch.nn.Embedding(10, 64)
        self.layers = torch.nn.ModuleList([Part(0.002, 0.004) for _ in range(3)])
        self.head = Part(0.01, 0.02)

    def forward(self, names):
        x = self.names(names)
        for layer in self.layers:
            x = layer(x=x)["x"]  # as transformers call theirs
        time.sleep(0.003)
        return self.head(x)["x"]


def keep_a_virtual_gpu_busy():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as name:
        name.write("vgpu0")
    while True:
        began = time.perf_counter()
        while time.perf_counter() < began + 0.002:
            pass
        time.sleep(0.008)


def uneven_parts():
    """Forward 2 ms in each of three layers, 10 in the head, 3 outside; backward twice as long."""
    import copy
    import pickle

    if "LOCKSTEP_VIRTUAL" in os.environ:
        threading.Thread(target=keep_a_virtual_gpu_busy, daemon=True).start()
    torch.manual_seed(1)
    net = UnevenParts()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(STEPS):
        loss = net(torch.arange(10)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pickle.dumps(copy.deepcopy(net))  # nothing of the probe is left in it
    print(f"{loss.item():.6f}")


globals()[sys.argv[1]]()
