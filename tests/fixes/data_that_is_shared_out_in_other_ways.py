import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset

from data import Images, Shards


def main(source):
    dist.init_process_group("nccl")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Images()
    options = dict(batch_size=8, num_workers=2, pin_memory=True)
    loaders = {
        "own": DataLoader(Shards(rank), batch_size=8, num_workers=2, pin_memory=True),
        "batches": DataLoader(data, batch_sampler=PerRank(data), num_workers=2, pin_memory=True),
        "given": DataLoader(source, batch_size=8, num_workers=2, pin_memory=True),
        "open": DataLoader(data, **options),
    }
    for loader in loaders.values():
        for x in loader:
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    cut = DataLoader(Subset(data, range(rank, len(data), world_size)), batch_size=8, num_workers=2, pin_memory=True, drop_last=True)
    for x in cut:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main(None)
