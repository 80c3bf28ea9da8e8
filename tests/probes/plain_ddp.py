"""A training script that knows nothing of lockstep: DistributedDataParallel, so many seconds. Rank
0 decides when it is over.
"""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SECONDS = float(os.environ.get("SECONDS_TO_TRAIN", "20"))

if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 256), torch.randint(0, 10, (4096,)))
    began = time.monotonic()
    going_on = torch.ones(1)
    while going_on.item():
        for inputs, labels in torch.utils.data.DataLoader(data, batch_size=32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        going_on = torch.tensor([float(time.monotonic() - began < SECONDS)])
        dist.broadcast(going_on, 0)
    dist.destroy_process_group()
