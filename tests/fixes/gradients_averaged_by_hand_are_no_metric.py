import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    head = torch.nn.Linear(10, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, x in enumerate(make_loader()):
        loss = head(model(x)).sum()
        optimizer.zero_grad()
        loss.backward()
        for parameter in head.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
