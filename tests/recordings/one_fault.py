"""GPT-2 in plain PyTorch, first without a fault and then with one, in one process.

usage: one_fault.py FAULT SECONDS_WITHOUT SECONDS_WITH [profiled]

profiled: the fault comes first, for as long as `lockstep profile` measures, and then the phase without it.

Prints {"phase": "with"} when the fault begins, and at the end the length of a step without it and with it. What a
fault costs is then known from the same run on the same machine: make_corpus.py records the second phase from outside.
"""

import gc
import json
import os
import socket
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "lib")
)
from gpt_in_pytorch import GPT, parameter_groups  # noqa: E402

LENGTH, VOCABULARY, BATCH = 1024, 50304, 16
SHORT = 64  # tokens of a sample where the host is to be the limit
WARM_UP = 15  # steps of each phase that do not count
SECOND_STARTS_S = 12  # a second program on the same GPU, which make_corpus.py starts


class Samples(Dataset):
    """Random tokens; before each one it does what the fault wants."""

    def __init__(self, before=None, length=LENGTH):
        self.before, self.length = before, length

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if self.before:
            self.before()
        return torch.randint(0, VOCABULARY, (self.length + 1,))


def decode_for(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))


def serve_slowly(seconds):
    """A server that takes its time for each sample: its port. No child of this process: a loader's worker would be."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(64)
    if os.fork():
        os.wait()
        return server.getsockname()[1]
    if os.fork():
        os._exit(0)

    def answer(connection):
        while connection.recv(1):
            time.sleep(seconds)
            connection.sendall(b"x")
        os._exit(0)  # nobody asks any more

    while True:
        connection, _ = server.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


class FromServer:
    def __init__(self, port):
        self.port, self.connection = port, None

    def __call__(self):
        if self.connection is None:  # one for each worker
            self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.connection.sendall(b"?")
        self.connection.recv(1)


def loader_of(fault, port=None):
    before, workers = None, 8
    if fault in ("slow-data-0", "slow-data-2", "slow-data-6"):
        workers = int(fault[-1])
        delay = {0: 0.006, 2: 0.02, 6: 0.06}[workers]
        before = lambda: time.sleep(delay)  # noqa: E731
    if fault == "decoding":
        workers, before = 4, lambda: decode_for(0.04)  # noqa: E731
    if fault == "network-data":
        workers, before = 4, FromServer(port)
    return DataLoader(
        Samples(before, SHORT if fault == "host-bound" else LENGTH),
        batch_size=1 if fault == "tiny-batch" else BATCH,
        num_workers=workers,
        pin_memory=fault != "pageable",
    )


def log_step(step, loss):
    time.sleep(0.05)


def score_in_python(seconds):
    decode_for(seconds)


class Training:
    def __init__(self, fault):
        self.fault = fault
        torch.set_float32_matmul_precision("highest" if fault == "fp32" else "high")
        layers, width = (12, 128) if fault == "host-bound" else (12, 768)
        with torch.device("cuda"):
            self.model = GPT(layers, 4 if width == 128 else 12, width, LENGTH, VOCABULARY)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, 0.1), lr=1e-4, fused=True)
        self.forward = torch.compile(self.model) if fault == "compiled" else self.model
        self.passes = 4 if fault == "accumulation" else 1
        self.log_file = None
        self.kept = []
        self.wide = None
        if fault == "pageable":  # as much as a batch of images, in ordinary memory
            self.wide = torch.empty(512 << 20, dtype=torch.uint8)

    def step(self, count, tokens, faulty):
        fault = self.fault if faulty else "none"
        if fault == "pageable":
            self.wide.to("cuda")
        tokens = tokens.to("cuda", non_blocking=True)
        autocast = torch.autocast("cuda", torch.bfloat16, enabled=fault != "fp32")
        for _ in range(self.passes):
            with autocast:
                loss = self.forward(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            (loss / self.passes).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if fault == "items":
            for parameter in self.parameters:
                parameter.norm().item()
        elif fault == "slow-logging":
            loss.item()
            log_step(count, loss)
        elif fault == "file-logging":
            self.log_file = self.log_file or open("steps.log", "a", encoding="utf-8")  # noqa: SIM115
            self.log_file.write(f"{count} {loss.item()}\n")
            self.log_file.flush()
            os.fsync(self.log_file.fileno())
        elif fault == "saving" and count % 40 == 39:
            torch.save(
                {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()},
                "saved.pt",
            )
        elif self.fault == "evaluation" and count % 20 == 19:
            self.evaluate(tokens, faulty)  # without the fault it evaluates, too, and nobody waits
        elif fault == "collector":
            self.kept = self.kept or [[i] for i in range(2_000_000)]
            gc.collect()
        elif fault == "python-metric":
            loss.item()
            score_in_python(0.05)

    def evaluate(self, tokens, faulty):
        self.model.eval()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for _ in range(10):
                loss = self.model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
                if faulty:
                    score_in_python(0.1 + 0 * loss.item())
        self.model.train()

    def gpu_ms(self, loader):
        """What the GPU itself works in a step."""
        steps, batches = 10, iter(loader)
        for _ in range(5):
            self.step(0, next(batches), faulty=False)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(steps):
                self.step(0, next(batches), faulty=False)
            torch.cuda.synchronize()
        kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        return sum(kernel.device_time for kernel in kernels) / 1e3 / steps

    def run(self, loader, seconds, faulty, enough=lambda: False):
        """The length of a step, in ms."""
        until, began, steps, count = time.monotonic() + seconds, None, 0, 0
        for count, tokens in enumerate(loader):
            if count == WARM_UP:
                torch.cuda.synchronize()
                began, steps = time.monotonic(), 0
            self.step(count, tokens, faulty)
            steps += 1
            if began and (time.monotonic() > until or enough()):
                break
        torch.cuda.synchronize()
        return 1e3 * (time.monotonic() - began) / max(1, steps)


def spin(seconds):
    """A kernel that waits on the GPU, as NCCL's do for a rank that never comes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.cuda._sleep(500_000_000)
        torch.cuda.synchronize()


def has_been_profiled():
    return os.path.exists(os.path.join(os.environ["LOCKSTEP_PROBE_FOLDER"], "stop"))


def run_profiled(fault, training, loader, without_s, with_s):
    """With the fault until the probes have stopped, then without it: the lengths of both steps."""
    with_fault = training.run(loader, with_s, faulty=True, enough=has_been_profiled)
    time.sleep(2)  # until the hooks are gone
    if fault == "host-bound":
        return training.gpu_ms(loader), with_fault
    return training.run(loader_of("none"), without_s, faulty=False), with_fault


def main():
    fault, without_s, with_s = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    port = serve_slowly(0.04) if fault == "network-data" else None
    training = Training(fault)
    loader = loader_of(fault, port)
    if sys.argv[4:] == ["profiled"]:
        without, with_fault = run_profiled(fault, training, loader, without_s, with_s)
        if fault == "tiny-batch":
            with_fault *= BATCH
        print(json.dumps({"without_ms": without, "with_ms": with_fault}), flush=True)
        os._exit(0)
    if fault == "host-bound":  # nothing to leave out: the truth is what the GPU does of each step
        without = training.gpu_ms(loader)
    else:
        without = training.run(loader_of("none"), without_s, faulty=False)
    print(json.dumps({"phase": "with"}), flush=True)
    with_fault = None
    if fault == "two-on-one":
        time.sleep(SECOND_STARTS_S)
    if fault == "stops":
        training.run(loader, with_s / 3, faulty=False)
        time.sleep(with_s)
    elif fault == "spinning":
        spin(with_s)
    else:
        with_fault = training.run(loader, with_s, faulty=True)
    if fault == "tiny-batch":
        with_fault *= BATCH  # of as many samples
    print(json.dumps({"without_ms": without, "with_ms": with_fault}), flush=True)
    os._exit(0)  # workers of endless loaders


main()
