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
    for i, x in enumerate(make_loader()):
        loss = ddp_net(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 1000 == 0:
            with torch.no_grad():
                net(x)
