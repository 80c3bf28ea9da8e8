import torch
from torch.utils.data import DataLoader

from data import Faces


def test(model):
    model.load_state_dict(torch.load("best.pt", map_location="cpu"))


if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Faces(), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    for epoch in range(10):
        for x in loader:  #: P103
            loss = model(x.cuda(non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "best.pt")
    test(torch.nn.Linear(10, 10))
