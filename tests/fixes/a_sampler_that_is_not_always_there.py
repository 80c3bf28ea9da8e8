import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from data import Images


class Rows(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return self.rows[index]


def save(model, gpu_id):
    if gpu_id == 0:
        write(model)


def write(model):
    torch.save(model.module.state_dict(), "last.pt")


def loaders(distributed):
    data = Images()
    sampler = DistributedSampler(data) if distributed else None  #: D205
    return DataLoader(data, batch_size=32, sampler=sampler, num_workers=4, pin_memory=True), DataLoader(Rows(), batch_size=4)  #: D204


def main(args):
    if args.distributed:
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.Linear(10, 10).cuda()
    torch.save(model.state_dict(), "first.pt")  #: X707
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, rows = loaders(args.distributed)
    for epoch in range(5):
        for x, y in loader:
            loss = model(x.cuda(non_blocking=True)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for row in rows:
            loss = model(row.cuda(non_blocking=True)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    save(model, args.gpu)


if __name__ == "__main__":
    main(parse())
