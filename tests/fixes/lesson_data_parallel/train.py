"""The same network with nn.DataParallel: python train.py [samples a batch]"""
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.linspace(0, 1, 16) * (index + 1)
        return torch.sin(x), torch.tensor([index / 64.0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("batch", type=int, nargs="?", default=32)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    if torch.cuda.device_count() > 1:
        print("Let's use", torch.cuda.device_count(), "GPUs!")
        model = nn.DataParallel(model)  #: P102
    model.to(device)

    data = Waves()
    loader = DataLoader(dataset=data, batch_size=args.batch, shuffle=False, num_workers=2)  #: D203
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(5):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            x = torch.stack([data[i][0] for i in range(len(data))]).to(device)
            y = torch.stack([data[i][1] for i in range(len(data))]).to(device)
            loss = nn.functional.mse_loss(model(x), y)
        print("epoch", epoch, "loss", f"{loss.item():.6f}")
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
