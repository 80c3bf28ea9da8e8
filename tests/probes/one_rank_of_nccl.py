"""One rank with a communicator of NCCL's, which stays for some seconds: RAS answers meanwhile. usage: one_rank_of_nccl.py [SECONDS] [DIALOGUE]

DIALOGUE: a file for what RAS was asked and said, both ways, as it was.
"""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29517")
dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda:0"))
value = torch.ones(1 << 20, device="cuda")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 3)
while time.monotonic() < until:
    dist.all_reduce(value)
    model(torch.randn(8, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    if len(sys.argv) > 2 and not os.path.exists(sys.argv[2]):
        with (
            socket.create_connection(("127.0.0.1", 28028), timeout=5) as ras,
            open(sys.argv[2], "w") as dialogue,
        ):
            for question in ("CLIENT PROTOCOL 2\n", "SET FORMAT json\n", "STATUS\n"):
                ras.sendall(question.encode())
                answer = b""
                while not answer.endswith(b"\n") if question != "STATUS\n" else True:
                    block = ras.recv(65536)
                    if not block:
                        break
                    answer += block
                dialogue.write("> " + question + answer.decode() + "\n")
print("nccl", torch.cuda.nccl.version())
dist.destroy_process_group()
