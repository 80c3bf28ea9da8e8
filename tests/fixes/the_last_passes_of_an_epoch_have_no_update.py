import torch
from torch.utils.data import DataLoader

from data import Images

if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    loader = DataLoader(Images(), batch_size=8, num_workers=4, pin_memory=True)
    for step, x in enumerate(loader, 1):
        loss = model(x.cuda(non_blocking=True)).mean() / 4
        scaler.scale(loss).backward()
        if step % 4 == 0:  #: X714
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
