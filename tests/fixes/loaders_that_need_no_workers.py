import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(3)


class OnTheGpu(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return torch.zeros(3).cuda()


def train(loader):
    model = torch.nn.Linear(3, 3).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    x = torch.zeros(1000, 3)
    train(DataLoader(TensorDataset(x, x), batch_size=4))
    train(DataLoader(Stream(), batch_size=4))
    train(DataLoader(OnTheGpu(), batch_size=4))
    train(DataLoader(x.tolist(), **{"num_workers": 2}))
    val_loader = DataLoader(Images(), batch_size=4)  # nobody trains with it
