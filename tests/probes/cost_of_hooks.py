"""What the Python probe's hooks cost on a step of about 6 ms, or on one of 700 kernels that the host limits.

usage: cost_of_hooks.py PROBE_FOLDER [BLOCKS [gpu]]; prints JSON: the median step without the probe in ms, and what the probe adds to a
step in ms in its first seconds, when it looks often, and from then on
"""

import json
import os
import sys
import tempfile

sys.path.insert(0, sys.argv[1])
rings = tempfile.TemporaryDirectory()
os.environ["LOCKSTEP_PROBE_FOLDER"] = rings.name

import torch
import torch.utils.data._utils.fetch as fetch
import torch.utils.data.dataloader as dataloader
from by_turns import measure, narrow_gpt, small_net
from lockstep_probe import (
    collector,
    loader,
    patches,
    recorder,
    sampler,
    saving,
    tensors,
    training,
    words,
)


def switch(on):
    recorder.stop()
    training.unhook()
    collector.unhook()
    patches.put_back_all()
    if not on:
        return
    recorder._stopped = False
    (
        training._steps,
        training._boundary,
        training._boundary_id,
        training._next_chore,
        training._rescans,
        sampler._thread,
    ) = 0, None, None, 0, 0, None
    tensors.hook(torch)
    words.hook_builtins()
    collector.hook()
    saving.hook_torch(torch)
    training.hook_autograd(torch.autograd)
    training.hook_optimizer(sys.modules["torch.optim.optimizer"])
    loader.hook(dataloader)
    loader.hook_fetch(fetch)


without, added = measure(
    int(sys.argv[2]) if len(sys.argv) > 2 else 101,
    switch,
    kind=lambda: "at_first" if sampler._looks < sampler._LOOKS_AT_FIRST else "later",
    program=narrow_gpt if sys.argv[3:] == ["gpu"] else small_net,
)
print(
    json.dumps({"without_ms": without, **{f"adds_{when}_ms": more for when, more in added.items()}})
)
