import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from data import Images

if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Images()
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False), num_workers=4, pin_memory=True)
    for i, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean() / 4
        loss.backward()  #: C403
        if i % 4 == 0:  #: X714
            optimizer.step()
            optimizer.zero_grad()
