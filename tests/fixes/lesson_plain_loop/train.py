"""A network learns on one GPU: python train.py [samples a batch]"""
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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x)

    def size(self):
        return sum(parameter.numel() for parameter in self.parameters())


def evaluate(model, data, device):
    model.eval()
    with torch.no_grad():
        x = torch.stack([data[i][0] for i in range(len(data))]).to(device)
        y = torch.stack([data[i][1] for i in range(len(data))]).to(device)
        return nn.functional.mse_loss(model(x), y).item()


def train_epoch(model, loader, optimizer, device):
    model.train()
    for x, y in loader:  #: P103
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(batch):
    torch.manual_seed(1)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    data = Waves()
    loader = DataLoader(data, batch_size=batch, shuffle=True, num_workers=2)  #: D203
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(5):
        train_epoch(model, loader, optimizer, device)
        print(f"epoch {epoch} loss {evaluate(model, data, device):.6f}")
    print("parameters", model.size())
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
