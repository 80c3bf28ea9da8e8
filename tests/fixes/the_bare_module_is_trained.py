import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = torch.nn.Linear(10, 10).cuda()
    ddp_net = DDP(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in make_loader():
        loss = net(x).sum()  #: X716
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for x in make_loader():
        loss = ddp_net.module(x).sum()  #: X716
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
