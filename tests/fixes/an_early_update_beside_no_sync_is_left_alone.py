import contextlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, x in enumerate(make_loader()):
        with contextlib.nullcontext() if i % 4 == 0 else model.no_sync():
            loss = model(x).mean() / 4
            loss.backward()
        if i % 4 == 0:  #: X714
            optimizer.step()
            optimizer.zero_grad()
