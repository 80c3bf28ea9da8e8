"""Two ranks of DistributedDataParallel, each of whose main threads is seen as a virtual GPU; a third
of each step sleeps.
"""

import ctypes
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SECONDS = float(os.environ["SECONDS_TO_TRAIN"])


def score():
    time.sleep(0.02)  # CAUSE: sleeps


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    name = f"vgpu{os.environ['LOCAL_RANK']}".encode()
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)  # PR_SET_NAME
    model = DistributedDataParallel(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(64, 256)
    began = time.monotonic()
    going_on = torch.ones(1)
    while going_on.item():
        until = time.monotonic() + 0.04
        while time.monotonic() < until:
            inputs.mul(1.0)
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
        score()
        going_on = torch.tensor([float(time.monotonic() - began < SECONDS)])
        dist.broadcast(going_on, 0)
    dist.destroy_process_group()
