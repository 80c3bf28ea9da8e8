import torch
from torch.utils.data import DataLoader

from data import Images

if __name__ == "__main__":
    model = torch.nn.Linear(10, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accum_steps = 4
    loader = DataLoader(Images(), batch_size=8, num_workers=4, pin_memory=True)
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean()
        loss.backward()
        if step % accum_steps == 0:  #: X714
            optimizer.step()
            optimizer.zero_grad()
