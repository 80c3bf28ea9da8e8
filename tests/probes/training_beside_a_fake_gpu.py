"""Trains on the CPU, and tells a CUPTI without a GPU what a GPU would have done. usage: training_beside_a_fake_gpu.py FAKE_CUPTI CAUSE [STEPS]

The GPU is a queue: a kernel begins when it is launched and the one before it has ended. The host launches as a training does.
causes: nothing (the GPU sets the pace), starved, launch_bound, turns (two GPUs, one after the other), exposed (a collective with nothing beside
it), hidden (one beside computing), mask (a wait that no line shows), profiler (torch.profiler in the middle)
"""

import ctypes
import os
import sys
import time

fake = ctypes.CDLL(sys.argv[1])  # before torch, so that it is the first libcupti in the process
fake.fake_cupti_kernel.argtypes = [
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.c_char_p,
]
fake.fake_cupti_wait.argtypes = [ctypes.c_uint64, ctypes.c_uint64]

import torch

GEMM, NCCL = (
    ctypes.c_char_p(b"sm90_xmma_gemm_bf16bf16_bf16f32"),
    ctypes.c_char_p(b"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"),
)
if os.environ.get("CUDA_INJECTION64_PATH"):
    ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()  # as the driver does

now = time.monotonic_ns
free = [0, 0]  # when each stream has done everything


def launch(milliseconds, device=0, stream=7, name=GEMM, after=0):
    begin = max(now() + 5000, free[stream == 8], after)
    end = begin + int(milliseconds * 1e6)
    fake.fake_cupti_kernel(begin, end, device, stream, name)
    free[stream == 8] = end
    return end


def wait():
    begin = now()
    while now() < max(free):
        time.sleep(0.0002)
    fake.fake_cupti_wait(begin, now())


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        if cause == "starved":
            time.sleep(0.02)
        return torch.ones(8)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x):
        for kernel in range(10):
            launch(
                0.1 if cause == "launch_bound" else 1.0,
                device=1 if cause == "turns" and kernel >= 5 else 0,
            )
            if cause == "launch_bound":
                time.sleep(0.0008)
        if cause == "mask":
            wait()
        return self.layer(x)


cause = sys.argv[2]
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 60
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step, batch in enumerate(torch.utils.data.DataLoader(Data(), batch_size=1)):
    loss = model(batch).sum()
    if cause == "exposed":
        launch(6.0, stream=8, name=NCCL, after=free[0])
    if cause == "hidden":
        launch(6.0, stream=8, name=NCCL)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if cause == "profiler" and step == steps // 2:
        # torch.profiler itself leaves CUDA out where there is none
        from torch.autograd import profiler

        with profiler.profile() as empty:
            pass
        profiler._prepare_profiler(empty.config(), {torch.profiler.ProfilerActivity.CUDA})
    if cause not in ("launch_bound", "starved"):  # ahead of the GPU by one step and no more
        while free[0] - now() > 4_000_000 or free[1] - now() > 0:
            time.sleep(0.0002)
    if step + 1 == steps:
        break
