import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_data = datasets.ImageFolder("data/train", transforms.ToTensor())
    train_loader = DataLoader(train_data, batch_size=64, shuffle=True)  #: D202 D203
    model = nn.Linear(10, 10).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        running_loss = 0.0
        for i, (inputs, labels) in enumerate(train_loader):
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()  #: S301
            print(f"step {i}: {loss.item():.4f}")  #: S302
        print(epoch, running_loss / len(train_loader))


if __name__ == "__main__":
    main()
