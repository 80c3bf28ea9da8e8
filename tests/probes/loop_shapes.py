"""Training loops of every shape that people write, one after the other. What it prints must be the same with the probe and
without, and the probe must see every step.

usage: loop_shapes.py [SHAPE...]     prints each shape's last loss; ends with `steps N`
"""

import asyncio
import gc
import sys
import threading
import time

import torch

STEPS = 60
taken = 0


class Training:
    """A small model and its optimizer: one step is one call."""

    def __init__(self, optimizer=torch.optim.SGD):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)
        )
        self.optimizer = optimizer(self.model.parameters(), lr=0.001)
        self.loss = None

    def backward(self, rows=32):
        time.sleep(0.002)  # a thousand steps in a second are more than anybody reads in time
        self.loss = self.model(torch.ones(rows, 64)).square().mean()
        self.loss.backward()

    def step(self, rows=32):
        global taken
        self.backward(rows)
        self.optimizer.step()
        self.optimizer.zero_grad()
        taken += 1
        return self.loss

    def __str__(self):
        return f"{self.loss.item():.6e}"


def plain():
    training = Training()
    for _ in range(STEPS):
        training.step()
    return training


def ends_in_if():
    training, seen = Training(), []
    for step in range(STEPS):
        training.step()
        if step % 2:
            for i in range(3000):
                if i % 3 == 7:
                    seen.append(i)
    return training


def ends_in_else_of_loop():
    training = Training()
    for step in range(STEPS):
        for _ in range(2):
            if step < 0:
                break
        else:
            training.step()
    return training


def while_true():
    training, step = Training(), 0
    while True:
        training.step()
        step += 1
        if step >= STEPS:
            break
    return training


def try_finally():
    training, closed = Training(), 0
    for step in range(STEPS):
        try:
            training.step()
            if step % 3 == 0:
                raise ValueError(step)
        except ValueError:
            continue
        finally:
            closed += 1
    assert closed == STEPS
    return training


def within_with():
    training = Training()
    for _ in range(STEPS):
        with torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
            training.step()
    return training


def data_by_generator():
    def batches():
        try:
            for i in range(STEPS):
                yield 8 + i % 4
        finally:
            pass

    training = Training()
    for rows in batches():
        training.step(rows)
    return training


def steps_by_generator():
    def steps(training):
        for i in range(STEPS):
            yield training.step(8 + i % 2)

    training = Training()
    assert sum(1 for _ in steps(training)) == STEPS
    return training


def comprehension():
    training = Training()
    assert len([training.step() for _ in range(STEPS)]) == STEPS
    return training


def recursion():
    training = Training()

    def further(left):
        training.step()
        return further(left - 1) if left > 1 else training

    return further(STEPS)


def coroutine():
    async def train():
        training = Training()
        for _ in range(STEPS):
            training.step()
            await asyncio.sleep(0)
        return training

    async def beside():
        for _ in range(3):
            await asyncio.sleep(0.001)

    async def both():
        return (await asyncio.gather(train(), beside()))[0]

    return asyncio.run(both())


def of_a_string():
    scope = {"training": Training()}
    exec(
        compile(f"for _ in range({STEPS}):\n    training.step()\n", "<of a string>", "exec"), scope
    )
    return scope["training"]


def thread():
    done = []
    one = threading.Thread(target=lambda: done.append(plain()))
    one.start()
    one.join()
    return done[0]


def two_optimizers():
    """As a GAN: the first marks steps, and the second steps within them."""
    global taken
    training, other = Training(), Training(torch.optim.Adam)
    for _ in range(STEPS):
        training.step()
        other.backward()
        other.optimizer.step()
        other.optimizer.zero_grad()
    return training


class Within(torch.optim.Optimizer):
    """Calls another's step in its own, as sharding optimizers do."""

    def __init__(self, parameters, lr):
        parameters = list(parameters)
        super().__init__(parameters, {"lr": lr})
        self.inner = torch.optim.SGD(parameters, lr=lr)

    @torch.no_grad()
    def step(self, closure=None):
        return self.inner.step(closure)


def nested_optimizers():
    training = Training(Within)
    for _ in range(STEPS):
        training.step()
    return training


def closure():
    """LBFGS computes the loss within its step, as often as it likes."""
    global taken
    training = Training(torch.optim.LBFGS)

    def again():
        training.optimizer.zero_grad()
        training.backward()
        return training.loss

    for _ in range(10):
        training.optimizer.step(again)
        taken += 1
    return training


def own_optimizer():
    """No optimizer of torch's: its steps are seen by what they change."""
    global taken
    training = Training()
    training.optimizer = None
    for _ in range(STEPS):
        training.backward()
        with torch.no_grad():
            for parameter in training.model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None
        taken += 1
    return training


def generates_then_trains():
    """As reinforcement learning does: many passes without gradients before each step."""
    training = Training()
    for _ in range(STEPS):
        with torch.no_grad():
            total = sum(float(training.model(torch.ones(1, 64))) for _ in range(5))
        assert total == total
        training.step()
    return training


SHAPES = [
    plain,
    ends_in_if,
    ends_in_else_of_loop,
    while_true,
    try_finally,
    within_with,
    data_by_generator,
    steps_by_generator,
    comprehension,
    recursion,
    coroutine,
    of_a_string,
    thread,
    two_optimizers,
    nested_optimizers,
    closure,
    own_optimizer,
    generates_then_trains,
]

torch.set_num_threads(1)
for shape in SHAPES:
    if not sys.argv[1:] or shape.__name__ in sys.argv[1:]:
        print(shape.__name__, shape(), flush=True)
        gc.collect()  # while an optimizer lives, it and no other marks steps
print("steps", taken)
