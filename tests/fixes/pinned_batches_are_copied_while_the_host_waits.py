import torch
from torch.utils.data import DataLoader


def train(model, optimizer, data):
    loader = DataLoader(data, batch_size=8, num_workers=4, pin_memory=True)
    for batch in loader:
        x = batch["x"].to("cuda")  #: D203
        y = batch["y"].cuda()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen = loss.detach().to("cpu")


if __name__ == "__main__":
    train(make_model(), make_optimizer(), make_data())
