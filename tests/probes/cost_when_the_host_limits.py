"""What the Python probe costs a step that the host limits: over 700 kernels that end on the GPU before the next is queued.

usage: cost_when_the_host_limits.py PROBE_FOLDER [SECONDS]; prints JSON, all in parts of a step:
  hooks: with the hooks in place for four steps and without them for four, by turns
  thread: what the steps in which the probe's thread looks or writes take more than those around them, times how many they are

Such a program wanders by a fifth within seconds, so stretches are short and each is compared with its neighbours; the errors are
standard errors of the means. Two processes, or two halves of one, tell nothing below ten percent.
"""

import bisect
import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
rings = tempfile.TemporaryDirectory()
os.environ["LOCKSTEP_PROBE_FOLDER"] = rings.name

import torch
import torch.optim.optimizer as optimizers
from by_turns import narrow_gpt, small_net
from lockstep_probe import collector, patches, recorder, sampler, saving, tensors, training, words

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 60
FEW = 4  # steps of a stretch
AROUND = 6  # steps on each side that a step is compared with


class Hooks:
    """All that stands in the way of a step; taken out and put back in microseconds."""

    def __init__(self):
        tensors.hook(torch)
        words.hook_builtins()
        collector.hook()
        saving.hook_torch(torch)
        training.hook_autograd(torch.autograd)
        training.hook_optimizer(optimizers)
        self.tables = None

    def out(self):
        own = (
            optimizers._global_optimizer_pre_hooks,
            optimizers._global_optimizer_post_hooks,
        )
        self.tables = [dict(table) for table in own], list(gc.callbacks)
        for table in own:
            table.clear()
        gc.callbacks.clear()
        for owner, name, original, _, inherited in patches._replaced:
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def back(self):
        (before, behind), callbacks = self.tables
        optimizers._global_optimizer_pre_hooks.update(before)
        optimizers._global_optimizer_post_hooks.update(behind)
        gc.callbacks.extend(callbacks)
        for owner, name, _, replacement, _ in patches._replaced:
            setattr(owner, name, replacement)


def mean_and_error(values):
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5


def cost_of_hooks(hooks, step):
    stretches = []
    end = time.monotonic() + SECONDS / 2
    while time.monotonic() < end:
        if len(stretches) % 2 == 0:
            hooks.out()
        else:
            hooks.back()
        step()
        began = time.perf_counter()
        for _ in range(FEW):
            step()
        stretches.append((time.perf_counter() - began) / FEW)
        recorder._queue.clear()
    if len(stretches) % 2 == 1:
        hooks.back()
    ratios = [
        2 * stretches[i] / (stretches[i - 1] + stretches[i + 1]) - 1
        for i in range(1, len(stretches) - 1)
    ]
    on, off = mean_and_error(ratios[::2]), mean_and_error(ratios[1::2])
    # off against on is the same once more, the other way round
    return (on[0] - off[0]) / 2, (on[1] ** 2 + off[1] ** 2) ** 0.5 / 2, statistics.median(stretches)


def cost_of_the_thread(step, start):
    awake = []

    def noted(original):
        def wrapper(*arguments):
            awake.append(time.perf_counter())
            return original(*arguments)

        return wrapper

    sampler._look, recorder.write_queued = noted(sampler._look), noted(recorder.write_queued)
    sampler._looks = sampler._LOOKS_AT_FIRST  # as it is behind the first seconds
    start()
    ends = [time.perf_counter()]
    while ends[-1] < ends[0] + SECONDS / 2:
        step()
        ends.append(time.perf_counter())
    times = [end - begin for begin, end in itertools.pairwise(ends)]
    disturbed = {bisect.bisect(ends, at) - 1 for at in awake}

    def more(chosen):
        differences = []
        for i in chosen:
            around = [
                times[j]
                for j in range(max(0, i - AROUND), min(len(times), i + AROUND + 1))
                if j != i and j not in disturbed
            ]
            if len(around) >= AROUND / 2:
                differences.append(times[i] - statistics.mean(around))
        return differences

    chosen = [i for i in disturbed if 0 <= i < len(times)]
    added, error = mean_and_error(more(chosen))
    share = len(chosen) / len(times) / statistics.mean(times)
    return added * share, error * share, len(chosen) / (ends[-1] - ends[0])


def main():
    hooks = Hooks()
    start, sampler.start = sampler.start, recorder.writer_runs
    _, batches, train = narrow_gpt() if torch.cuda.is_available() else small_net()
    batches = itertools.cycle(list(batches))

    def step():
        train(next(batches))

    for _ in range(10):  # the model is found, and hooked
        step()
    added, error, step_s = cost_of_hooks(hooks, step)
    thread, thread_error, a_second = cost_of_the_thread(step, start)
    print(
        json.dumps(
            {
                "step_ms": round(1e3 * step_s, 2),
                "hooks": round(added, 4),
                "hooks_error": round(error, 4),
                "thread": round(thread, 4),
                "thread_error": round(thread_error, 4),
                "thread_wakes_a_second": round(a_second, 1),
            }
        )
    )


main()
