import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from data import Images


def train_epoch(model, loader, optimizer):
    for x, y in loader:
        loss = model(x.cuda(non_blocking=True)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Images()
    train_sampler = DistributedSampler(data)  #: D205
    loader = DataLoader(data, batch_size=32, sampler=train_sampler, num_workers=4, pin_memory=True)
    for epoch in range(5):
        # One pass over the data.
        train_epoch(model, loader, optimizer)


if __name__ == "__main__":
    main()
