import os

import torch

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"  #: X708
os.environ["NCCL_P2P_DISABLE"] = "1"  #: X708
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
if "DEBUG" in os.environ:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
torch.autograd.set_detect_anomaly(True)  #: X708
model = torch.nn.Linear(10, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in make_loader():
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
