"""Q-learning on stored frames (all on the GPU) with a host-side ledger of what to look at next."""

import heapq
import json
import random
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SLOTS, ACTIONS = 512, 8192, 18


class Bump(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + self.b(F.relu(self.a(F.relu(x))))


class QNet(nn.Module):
    def __init__(self, widths=(128, 256, 256)):
        super().__init__()
        parts, c = [], 4
        for w in widths:
            parts += [nn.Conv2d(c, w, 3, padding=1), nn.MaxPool2d(3, 2, 1), Bump(w), Bump(w)]
            c = w
        self.body = nn.Sequential(*parts)
        self.head = nn.Sequential(nn.Linear(c * 11 * 11, 512), nn.ReLU(), nn.Linear(512, ACTIONS))

    def forward(self, frames):
        x = (frames.float() / 255.0).contiguous(memory_format=torch.channels_last)
        return self.head(F.relu(self.body(x)).flatten(1))


class Ledger:
    """Which transition is looked at next: a heap of (-urgency, stamp, slot, gain)."""

    def __init__(self, size=40_000, seed=0):
        self.rnd = random.Random(seed)
        self.stamp = size
        self.heap = [(-self.rnd.random(), i, i % SLOTS, self.rnd.gauss(0, 1)) for i in range(size)]
        heapq.heapify(self.heap)
        self.recent = []

    def one_round(self):
        taken = [heapq.heappop(self.heap) for _ in range(32)]
        for urgency, _, slot, gain in taken:
            self.stamp += 1
            fresh = 0.9 * gain + 0.1 * self.rnd.gauss(0, 1)
            heapq.heappush(self.heap, (urgency * self.rnd.random(), self.stamp, slot, fresh))
        at = self.rnd.randrange(len(self.heap) - 300)
        ranked = sorted(self.heap[at : at + 300], key=lambda entry: (entry[3], -entry[1]))
        self.recent = ranked[:16] + ranked[-16:]
        return [entry[2] for entry in taken]

    def rebalance(self, rounds):
        slots = []
        for _ in range(rounds):
            slots += self.one_round()
        while len(slots) < BATCH:
            slots.append(self.rnd.randrange(SLOTS))
        return slots[-BATCH:]


class Learner:
    def __init__(self):
        self.frames = torch.randint(0, 256, (SLOTS, 4, 84, 84), dtype=torch.uint8, device="cuda")
        self.actions = torch.randint(0, ACTIONS, (SLOTS, 1), device="cuda")
        self.gains = torch.randn(SLOTS, device="cuda")
        with torch.device("cuda"):
            self.q, self.slow = QNet(), QNet()
        self.q.to(memory_format=torch.channels_last)
        self.slow.to(memory_format=torch.channels_last).requires_grad_(False)
        self.slow.load_state_dict(self.q.state_dict())
        self.pairs = (list(self.slow.parameters()), list(self.q.parameters()))
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-4, fused=True)
        self.ledger = Ledger()
        self.rounds = 0

    def pick_slots(self):
        if self.rounds == 0:
            return torch.randint(0, SLOTS, (BATCH,), device="cuda")
        slots = self.ledger.rebalance(self.rounds)
        return torch.tensor(slots).pin_memory().cuda(non_blocking=True)

    def learn(self):
        at = self.pick_slots()
        now, after = self.frames[at], self.frames[(at + 1) % SLOTS]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.no_grad():
                best = self.slow(after).float().amax(1)
            value = self.q(now).float().gather(1, self.actions[at]).squeeze(1)
        loss = F.smooth_l1_loss(value, self.gains[at] + 0.99 * best)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(self.pairs[0], self.pairs[1], 0.005)

    def period(self, seconds, ignore):
        for _ in range(ignore):
            self.learn()
        torch.cuda.synchronize()
        begin, n = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            self.learn()
            n += 1
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / n


def rounds_for(ledger, seconds):
    for _ in range(20):
        ledger.one_round()
    t = time.perf_counter()
    for _ in range(200):
        ledger.one_round()
    return max(1, round(seconds / ((time.perf_counter() - t) / 200)))


def main():
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    learner = Learner()
    a = learner.period(float(sys.argv[1]), 14)
    print(json.dumps({"phase": "with"}), flush=True)
    learner.rounds = rounds_for(learner.ledger, 2.0 * a)
    b = learner.period(float(sys.argv[2]), 4)
    print(json.dumps({"without_ms": a * 1e3, "with_ms": b * 1e3}), flush=True)


if __name__ == "__main__":
    main()
