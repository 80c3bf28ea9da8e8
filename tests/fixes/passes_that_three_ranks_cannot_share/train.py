import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

gradient_accumulation_steps = 2 * 4
if __name__ == "__main__":
    dist.init_process_group("nccl")
    ddp_world_size = int(os.environ["WORLD_SIZE"])
    gradient_accumulation_steps //= ddp_world_size  #: X704
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(10, 10).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        for micro in range(gradient_accumulation_steps):
            model.require_backward_grad_sync = micro == gradient_accumulation_steps - 1
            loss = model(next_batch()).sum() / gradient_accumulation_steps
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
