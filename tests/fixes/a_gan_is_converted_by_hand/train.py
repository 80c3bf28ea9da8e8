import torch
from torch.utils.data import DataLoader

from data import Faces

if __name__ == "__main__":
    generator = torch.nn.Linear(10, 10).cuda()
    critic = torch.nn.Linear(10, 1).cuda()
    generator_optimizer = torch.optim.Adam(generator.parameters())
    critic_optimizer = torch.optim.Adam(critic.parameters())
    loader = DataLoader(Faces(), batch_size=8, shuffle=True, num_workers=4, pin_memory=True)
    for epoch in range(10):
        for x in loader:  #: P103
            x = x.cuda(non_blocking=True)
            critic_loss = critic(x).mean() - critic(generator(x).detach()).mean()
            critic_optimizer.zero_grad()
            critic_loss.backward()
            critic_optimizer.step()
            generator_loss = -critic(generator(x)).mean()
            generator_optimizer.zero_grad()
            generator_loss.backward()
            generator_optimizer.step()
