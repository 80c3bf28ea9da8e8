import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def average(value):
    dist.all_reduce(value)
    return value / dist.get_world_size()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, x in enumerate(make_loader()):
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = average(loss.detach())  #: C409
        dist.barrier()  #: C409
        if i % 50 == 0:
            dist.all_reduce(shown)
    dist.barrier()
