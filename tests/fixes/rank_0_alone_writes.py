import os

import torch
import torch.distributed as dist
import wandb
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main_process():
    return dist.get_rank() == 0


def save(model, path):
    torch.save(model.module.state_dict(), path)


def early(model):
    if dist.get_rank() != 0:
        return
    torch.save(model.module.state_dict(), "early.pt")


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if rank == 0:
        wandb.init(project="net")
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in make_loader():
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if is_main_process():
        save(model, "last.pt")
    early(model)
    torch.save(optimizer.state_dict(), f"optimizer_{rank}.pt")


if __name__ == "__main__":
    main()
