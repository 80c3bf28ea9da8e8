"""GPT-2 in plain PyTorch, first without a fault and then with one, in one process. Without a GPU a small one.

usage: one_fault.py FAULT SECONDS_WITHOUT SECONDS_WITH [STEPS]

STEPS: `lockstep profile` looks at so many: the fault comes first, in those, and then the phase without it. The length
of a step with the fault is that of the steps which the profile counts: a save once more, half a minute later, may take
a third longer, and is not what was seen.

Prints {"phase": "with"} when the fault begins, and at the end the length of a step without it and with it. What a
fault costs is then known from the same run on the same machine: make_corpus.py records the second phase from outside.
"""

import copy
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

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
LENGTH, VOCABULARY, BATCH = (1024, 50304, 16) if ON_GPU else (64, 512, 8)
LAYERS, WIDTH, HEADS = (12, 768, 12) if ON_GPU else (2, 128, 4)
SHORT = 64  # tokens of a sample where the host is to be the limit
SLOW_LOADERS = ("slow-data-0", "slow-data-2", "slow-data-6", "decoding", "network-data")
WARM_UP = 15  # steps of each phase that do not count
SECOND_STARTS_S = 12  # a second program on the same GPU, which make_corpus.py starts


class OwnClock:
    """What the fault itself takes. Without a GPU nothing goes on meanwhile: that is what it costs."""

    def __init__(self):
        self.seconds = 0.0

    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, *_):
        self.seconds += time.perf_counter() - self.began


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


def synchronize():
    if ON_GPU:
        torch.cuda.synchronize()


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
    before, workers = None, 8 if ON_GPU else 1
    if fault in ("slow-data-0", "slow-data-2", "slow-data-6"):
        workers = int(fault[-1])
        delay = {0: 0.006, 2: 0.02, 6: 0.06}[workers]
        before = lambda: time.sleep(delay)  # noqa: E731
    if fault == "decoding":  # without a GPU the training needs a core itself
        workers, length = (4, 0.04) if ON_GPU else (1, 0.01)
        before = lambda: decode_for(length)  # noqa: E731
    if fault == "network-data":
        workers, before = 4, FromServer(port)
    return DataLoader(
        Samples(before, SHORT if fault == "host-bound" else LENGTH),
        batch_size=1 if fault == "tiny-batch" else BATCH,
        num_workers=workers,
        pin_memory=ON_GPU and fault != "pageable",
    )


def log_step(step, loss):
    time.sleep(0.05)


def report_to(server, loss):
    server.sendall(b"?")
    server.recv(1)


def augment(tokens):
    decode_for(0.03)
    return tokens


class Convolutions(torch.nn.Module):
    """Another kind of model, which nothing is wrong with."""

    def __init__(self, wide):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, wide)
        self.layers = torch.nn.Sequential(
            *[
                layer
                for _ in range(6)
                for layer in (torch.nn.Conv1d(wide, wide, 3, padding=1), torch.nn.ReLU())
            ]
        )
        self.head = torch.nn.Linear(wide, VOCABULARY)

    def body(self, tokens):
        return self.layers(self.embedding(tokens).transpose(1, 2)).transpose(1, 2)

    def forward(self, tokens, targets):
        logits = self.head(self.body(tokens))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Recurrent(Convolutions):
    def __init__(self, wide):
        super().__init__(wide)
        self.layers = torch.nn.LSTM(wide, wide, 2, batch_first=True)

    def body(self, tokens):
        # A GPU works through 1024 moments one by one, each a few microseconds of work: many short
        # sequences keep it busy.
        short = tokens.reshape(-1, 32) if tokens.shape[1] == 1024 else tokens
        return self.layers(self.embedding(short))[0].reshape(*tokens.shape, -1)


def score_in_python(seconds):
    decode_for(seconds)


class Waiting(torch.nn.Module):
    """A layer that asks somebody else, or one whose gradient does."""

    def __init__(self, model, clock, in_backward):
        super().__init__()
        self.model, self.clock, self.in_backward = model, clock, in_backward
        self.waits = False

    def wait(self, gradient=None):
        with self.clock:
            time.sleep(0.02)

    def forward(self, tokens, targets):
        if self.waits and not self.in_backward:
            self.wait()
        loss = self.model(tokens, targets)
        if self.waits and self.in_backward:
            loss.register_hook(self.wait)
        return loss


class Training:
    def __init__(self, fault):
        self.fault = fault
        torch.set_float32_matmul_precision("highest" if fault == "fp32" else "high")
        if not ON_GPU:
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)  # gradients of a loss near 0 take ten times as long
        with torch.device(DEVICE):
            if fault == "convolutions":
                self.model = Convolutions(4 * WIDTH)
            elif fault == "recurrent":
                self.model = Recurrent(WIDTH)
            elif fault == "host-bound":
                self.model = GPT(12, 4, 128, LENGTH, VOCABULARY)
            else:
                self.model = GPT(LAYERS, HEADS, WIDTH, LENGTH, VOCABULARY)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, 0.1), lr=1e-4, fused=ON_GPU)
        self.forward = torch.compile(self.model) if fault == "compiled" else self.model
        self.passes = 4 if fault == "accumulation" else 1
        self.log_file = None
        self.kept = []
        self.wide = None
        if fault == "pageable":  # as much as a batch of images, in ordinary memory
            self.wide = torch.empty(512 << 20, dtype=torch.uint8)
        if fault == "saving" and not ON_GPU:  # a small model is saved at once
            self.wide = torch.ones(50_000_000)
        self.own_clock = OwnClock()
        if fault in ("forward-waits", "hook-waits"):
            self.forward = Waiting(self.model, self.own_clock, fault == "hook-waits")
        self.server = None
        if fault == "server-logging":
            self.server = socket.create_connection(("127.0.0.1", serve_slowly(0.03)))

    def step(self, count, tokens, faulty):
        fault = self.fault if faulty else "none"
        if fault == "pageable":
            self.wide.to("cuda")
        if fault == "augmenting":
            with self.own_clock:
                tokens = augment(tokens)
        tokens = tokens.to(DEVICE, non_blocking=True)
        if isinstance(self.forward, Waiting):
            self.forward.waits = fault != "none"
        autocast = torch.autocast(DEVICE, torch.bfloat16, enabled=ON_GPU and fault != "fp32")
        for _ in range(self.passes):
            with autocast:
                loss = self.forward(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            (loss / self.passes).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with self.own_clock:
            self.do_what_is_wrong(fault, count, tokens, loss)

    def do_what_is_wrong(self, fault, count, tokens, loss):
        if self.fault == "items":  # without the fault the norms stay, and nobody waits for them
            for parameter in self.parameters:
                norm = parameter.norm()
                if fault != "none":
                    norm.item()
        elif fault == "slow-logging":
            loss.item()
            log_step(count, loss)
        elif fault == "file-logging":
            self.log_file = self.log_file or open("steps.log", "a", encoding="utf-8")  # noqa: SIM115
            for _ in range(1 if ON_GPU else 20):  # of a step that takes as long
                self.log_file.write(f"{count} {loss.item()}\n")
                self.log_file.flush()
                os.fsync(self.log_file.fileno())
        elif fault == "saving" and count % 40 == 39:
            torch.save(
                {
                    "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "more": self.wide,
                },
                "saved.pt",
            )
        elif self.fault == "evaluation" and count % 20 == 19:
            self.evaluate(
                tokens, fault != "none"
            )  # without the fault it evaluates, too, and nobody waits
        elif fault == "collector":
            self.kept = self.kept or [[i] for i in range(2_000_000)]
            gc.collect()
        elif fault == "python-metric":
            loss.item()
            score_in_python(0.05)
        elif fault == "server-logging":
            report_to(self.server, loss.item())
        elif fault == "copying":
            for _ in range(1 if ON_GPU else 40):
                self.kept = copy.deepcopy(self.model.state_dict())
        elif fault == "sleeping":
            time.sleep(0.02)

    def evaluate(self, tokens, faulty):
        self.model.eval()
        with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16, enabled=ON_GPU):
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

    def run(self, loader, seconds, faulty, warm_up=WARM_UP, last=None, go_on=lambda: False):
        """The length of a step behind the warm-up, in ms: of all within these seconds, or to the last that counts,
        behind which it may go on."""
        began = ended = None
        for count, tokens in enumerate(loader):
            if self.fault in SLOW_LOADERS and count > 0:
                self.own_clock.__exit__()
            if count == warm_up:
                synchronize()
                began, self.own_clock.seconds = time.monotonic(), 0.0
            self.step(count, tokens, faulty)
            if ended is None and count + 1 > warm_up:
                if count + 1 == last or (last is None and time.monotonic() > began + seconds):
                    synchronize()
                    ended, self.counted = time.monotonic(), count + 1 - warm_up
                    self.in_fault_ms = 1e3 * self.own_clock.seconds / self.counted
            if ended is not None and not go_on():
                break
            if self.fault in SLOW_LOADERS:
                self.own_clock.__enter__()
        return 1e3 * (ended - began) / self.counted


def spin(seconds):
    """A kernel that waits on the GPU, as NCCL's do for a rank that never comes."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.cuda._sleep(500_000_000)
        torch.cuda.synchronize()


def is_profiled():
    return not os.path.exists(os.path.join(os.environ["LOCKSTEP_PROBE_FOLDER"], "stop"))


def run_profiled(fault, training, loader, without_s, steps):
    """With the fault for as long as it is profiled, then without it: the lengths of both steps, and what of the
    first the fault itself took.
    """
    warm_up = max(2, steps // 5)  # what the profile takes for it
    with_fault = training.run(loader, 0, True, warm_up, last=steps, go_on=is_profiled)
    in_fault = training.in_fault_ms
    time.sleep(2)  # until the hooks are gone
    if fault == "host-bound":
        return training.gpu_ms(loader), with_fault, in_fault
    return training.run(loader_of("none"), without_s, faulty=False), with_fault, in_fault


def main():
    fault, without_s, with_s = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    port = serve_slowly(0.04) if fault == "network-data" else None
    training = Training(fault)
    loader = loader_of(fault, port)
    if sys.argv[4:]:
        without, with_fault, in_fault = run_profiled(
            fault, training, loader, without_s, int(sys.argv[4])
        )
        if fault == "tiny-batch":
            with_fault *= BATCH
        lengths = {"without_ms": without, "with_ms": with_fault, "in_fault_ms": in_fault}
        print(json.dumps(lengths), flush=True)
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
