import torch

model = torch.nn.Linear(10, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for x in make_loader():
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #: X715
    scaler.step(optimizer)
    scaler.update()
