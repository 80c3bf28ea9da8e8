import torch
from torch.utils.data import DataLoader

from data import Faces

if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    picture = torch.zeros(10).cuda().requires_grad_()
    optimizer = torch.optim.Adam([picture])
    loader = DataLoader(Faces(), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    for epoch in range(10):
        for x in loader:
            loss = model(x.cuda(non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
