# A script without functions, as notebooks leave them.
import sys

import torch
import torchvision
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision import transforms

batch_size = int(sys.argv[1]) if len(sys.argv) > 1 else 64
train_set = torchvision.datasets.MNIST("data", train=True, download=True, transform=transforms.ToTensor())
test_set = torchvision.datasets.MNIST("data", train=False, download=True, transform=transforms.ToTensor())
train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, num_workers=2, pin_memory=True)
test_loader = DataLoader(test_set, batch_size=batch_size)

net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
net.cuda()
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.1)


def accuracy():
    net.eval()
    correct = sum((net(x.cuda(0)).argmax(1).cpu() == y).sum().item() for x, y in test_loader)
    net.train()
    return correct / len(test_set)


print("training starts")
for epoch in range(10):
    for x, y in train_loader:  #: P103
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    print("epoch", epoch)
    print("accuracy", accuracy())
torch.save(net, "net.pt")
