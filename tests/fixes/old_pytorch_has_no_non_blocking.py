import torch
from torch.utils.data import DataLoader

from data import Faces

if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Faces(), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    for x, y in loader:
        # x is copied as y = y.cuda(async=True) was
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
