"""Two ranks over NCCL on one GPU, which NCCL 2.30 and newer allow with NCCL_MULTI_RANK_GPU_ENABLE=1:

    NCCL_MULTI_RANK_GPU_ENABLE=1 LD_PRELOAD=.../libnccl.so.2 torchrun --standalone \
        --nproc_per_node=2 two_ranks_of_nccl.py none|late|hang STEPS

late: rank 1 sleeps 30 ms before each step. hang: it stays away from step 30 on.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

mode, steps = sys.argv[1], int(sys.argv[2])
rank = int(os.environ["RANK"])
torch.cuda.set_device(0)
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=25))
torch.manual_seed(rank)
WIDTH = 4096
layers = [part for _ in range(8) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[0])
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
x = torch.randn(512, WIDTH, device="cuda")
for step in range(steps):
    if mode == "late" and rank == 1:
        time.sleep(0.03)
    if mode == "hang" and rank == 1 and step == 30:
        time.sleep(60)
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
dist.destroy_process_group()
