import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main_process():
    return dist.get_rank() == 0


def prepare(local_rank):
    if local_rank not in [-1, 0]:
        torch.distributed.barrier()
    download()
    if local_rank == 0:
        torch.distributed.barrier()


def both(rank):
    if rank == 0:
        unpack()
        dist.barrier()
    else:
        dist.barrier()


def named(rank, group):
    if rank == 0:
        dist.barrier(group=group)


def first_the_main_one():
    if not is_main_process():
        dist.barrier()
    download()
    if is_main_process():
        dist.barrier()


def with_a_return(rank):
    dist.barrier()
    if rank != 0:
        return
    print("rank 0 has the last word")


if __name__ == "__main__":
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    prepare(int(os.environ["LOCAL_RANK"]))
    both(rank)
    named(rank, dist.new_group([0]))
    first_the_main_one()
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in make_loader():
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.is_initialized():
        dist.barrier()
    with_a_return(rank)
