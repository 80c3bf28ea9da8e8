import torch
from torch.utils.data import DataLoader

from data import Faces


def train(model, loader, optimizer):
    total = 0.0
    logged = 0.0
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()  #: S301
        if step % 100 == 0:
            print("loss", round(total / (step + 1), 4))
    return logged


def train_with_marks(model, loader, optimizer):
    total = 0.0
    logged = 0.0
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()  #: S301
        if step % 100 == 0:
            print("loss", total - logged)
            logged = total


if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Faces(), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    train(model, loader, optimizer)
    train_with_marks(model, loader, optimizer)
