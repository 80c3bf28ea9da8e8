import torch
from torch.utils.data import DataLoader

from data import Faces
from nets import Net

if __name__ == "__main__":
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Faces(), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    for epoch in range(10):
        for x, y in loader:  #: P103
            loss = model(x.cuda(non_blocking=True)).sum()
            if torch.isnan(loss):  #: S301
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
