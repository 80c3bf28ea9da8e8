import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

if __name__ == "__main__":
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)  #: X710
    device = torch.device(f"cuda:{rank}")
    model = DDP(torch.nn.Linear(10, 10).to(device), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in make_loader():
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
