import torch

model = torch.nn.Linear(10, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = make_loader()
for i, x in enumerate(loader):
    loss = model(x).sum() / 8
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #: X715
    if (i + 1) % 8 == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
