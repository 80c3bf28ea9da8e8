import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Checkpoints:
    def __init__(self, model, save_to_disk):
        self.model = model
        self.save_to_disk = save_to_disk

    def save(self, name):
        if not self.save_to_disk:
            return
        torch.save(self.model.module.state_dict(), name)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in make_loader():
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank in [-1, 0]:
        print("done")
    Checkpoints(model, rank == 0).save("disk.pt")
    torch.save(model.module.state_dict(), "last.pt")  #: X707


if __name__ == "__main__":
    main()
