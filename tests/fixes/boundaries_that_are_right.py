import torch
from torch.utils.data import DataLoader

from data import Images

if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Images(), batch_size=8, num_workers=4, pin_memory=True)
    for step, x in enumerate(loader):
        # The update of the passes before this one.
        if step % 4 == 0 and step > 0:
            optimizer.step()
            optimizer.zero_grad()
        loss = model(x.cuda(non_blocking=True)).mean() / 4
        loss.backward()
    optimizer.step()
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean() / 4
        loss.backward()
        if (step + 1) % 4 == 0 or step == len(loader) - 1:
            optimizer.step()
            optimizer.zero_grad()
    # A second network that is meant to learn more slowly.
    for step, x in enumerate(loader):
        optimizer.zero_grad()
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        if step % 4 == 0:
            optimizer.step()
