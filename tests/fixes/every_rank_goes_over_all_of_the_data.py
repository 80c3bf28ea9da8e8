import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)

train_set = datasets.CIFAR10("data", transform=transforms.ToTensor())
train_loader = DataLoader(train_set, batch_size=128, shuffle=True, num_workers=4, pin_memory=True)  #: D204
model = DistributedDataParallel(torch.nn.Linear(10, 10).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(20):
    for images, labels in train_loader:
        loss = model(images.cuda(non_blocking=True)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
