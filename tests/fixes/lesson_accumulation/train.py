"""Four passes an update, and the boundary is off by one: python train.py [samples a pass]"""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.linspace(0, 1, 16) * (index + 1)
        return torch.sin(x), torch.tensor([index / 64.0])


def train(model, loader, data, device):
    accumulation_steps = 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(5):
        for i, (x, y) in enumerate(loader):  #: P103
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            if i % accumulation_steps == 0:  #: X714
                optimizer.step()
                optimizer.zero_grad()
        with torch.no_grad():
            x = torch.stack([data[i][0] for i in range(len(data))]).to(device)
            y = torch.stack([data[i][1] for i in range(len(data))]).to(device)
            print(f"epoch {epoch} loss {nn.functional.mse_loss(model(x), y).item():.6f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "model.pt")


if __name__ == "__main__":
    torch.manual_seed(1)
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    waves = Waves()
    train(net, DataLoader(waves, batch_size=batch, num_workers=2), waves, device)  #: D203
