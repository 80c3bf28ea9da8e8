"""A loop that keeps a virtual GPU busy half of the time, and does one thing in the other half.

usage: one_cause.py CAUSE SECONDS

The virtual GPU is a thread named vgpu0 that computes 50 ms for each step. Lines that a report must
name carry the mark `# CAUSE: <name>`. With ACCOUNT=FILE it writes there what share of its time the
loader took, the GPU, and the rest (on a machine that is busy elsewhere they are no halves), and
which part of the GPU's time a processor was there for it.
"""

import ctypes
import gc
import json
import os
import sys
import threading
import time

from torch.utils.data import DataLoader, Dataset

STEP_S = 0.05
libc = ctypes.CDLL(None)
zlib = ctypes.CDLL("libz.so.1")  # its calls let go of the interpreter, as kernels do
DATA = b"x" * 2_000_000


class VirtualGpu:
    def __init__(self):
        self.begin, self.end = threading.Event(), threading.Event()
        self.computed_s = 0.0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        libc.prctl(15, b"vgpu0", 0, 0, 0)  # PR_SET_NAME
        while True:
            self.begin.wait()
            self.begin.clear()
            until = time.monotonic() + STEP_S
            while time.monotonic() < until:
                zlib.crc32(0, DATA, len(DATA))
            self.computed_s = time.thread_time()
            self.end.set()

    def step(self):
        self.begin.set()
        self.end.wait()
        self.end.clear()


class Samples(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index


def log_metrics():
    time.sleep(STEP_S)  # CAUSE: logs


def asks_a_simulator():
    time.sleep(STEP_S)  # CAUSE: waits


def main():
    cause, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
    slow = 2 * 2 * STEP_S if cause == "slow-loader" else 0.001
    loader = DataLoader(Samples(slow), batch_size=1, num_workers=2)
    gpu = VirtualGpu()
    kept = [[i] for i in range(1_000_000)] if cause == "collects" else []
    account = {"loader": 0.0, "gpu": 0.0, "rest": 0.0}
    begin = None  # of the second step: the first waits for the workers to start
    for _ in loader:  # CAUSE: slow-loader
        came = time.monotonic()
        if begin is not None:
            account["loader"] += came - ended
        gpu.step()
        computed = time.monotonic()
        if cause == "logs":
            log_metrics()
        if cause == "waits":
            asks_a_simulator()
        if cause == "collects":
            gc.collect()  # CAUSE: collects
        ended = time.monotonic()
        if begin is None:
            begin, computed_before = ended, gpu.computed_s
        else:
            account["gpu"] += computed - came
            account["rest"] += ended - computed
        if ended > until:
            break
    del kept
    if "ACCOUNT" in os.environ:
        whole = max(ended - begin, 1e-9)
        shares = {part: seconds / whole for part, seconds in account.items()}
        shares["gpu_ran"] = (gpu.computed_s - computed_before) / max(account["gpu"], 1e-9)
        with open(os.environ["ACCOUNT"], "w", encoding="utf-8") as file:
            json.dump(shares, file)
    loader._iterator = None
    sys.stdout.flush()
    os._exit(0)  # without the end of an endless loader


main()
