import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

accumulation = 4


def train(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        loss = model(x).sum() / accumulation
        loss.backward()  #: C403
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #: X715
        if (i + 1) % accumulation == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, make_loader(), optimizer)
