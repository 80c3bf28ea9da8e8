"""lockstep's Python probe: where a training step's time goes, without a change to the program.

Hooks go in as modules are imported; a program that never imports torch is left alone. Records go to a ring that lockstep
reads (wire.py). A hook that fails says so once and the probe is silent from then on.
"""

import atexit
import os

from . import (
    collectives,
    collector,
    imports,
    loader,
    patches,
    profiler,
    recorder,
    sampler,
    saving,
    tensors,
    training,
    windows,
    words,
)

_started = False


def start():
    global _started
    if _started:
        return
    _started = True
    imports.after("torch", _torch_is_there)


def _torch_is_there(torch):
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(recorder.remove_at_exit)
    atexit.register(sampler.finish)
    atexit.register(windows.close)
    tensors.hook(torch)
    saving.hook_torch(torch)
    words.hook_builtins()
    collector.hook()
    imports.after("torch.cuda", tensors.hook_cuda)
    imports.after("torch.autograd", training.hook_autograd)
    imports.after("torch.autograd.profiler", profiler.hook)
    imports.after("torch.optim.optimizer", training.hook_optimizer)
    imports.after("torch.utils.data.dataloader", loader.hook)
    imports.after("torch.utils.data._utils.fetch", loader.hook_fetch)
    imports.after("torch.utils.data._utils.worker", loader.hook_worker)
    imports.after("torch.distributed.distributed_c10d", collectives.hook)
    imports.after("torch.distributed", collectives.hook_names)
    # Modules that torch itself may import on its way: a hook asks torch whether it compiles, which
    # a torch that is half there answers by a deprecated function.
    imports.after("tqdm.std", words.hook_tqdm)
    imports.after("torch.utils.tensorboard.writer", words.hook_tensorboard)
    imports.after("tensorboardX.writer", words.hook_tensorboard)
    imports.after("wandb.sdk.wandb_run", words.hook_wandb)
    imports.after("safetensors.torch", saving.hook_safetensors)
    imports.after(
        "torch.distributed.checkpoint.state_dict_saver", saving.hook_distributed_checkpoint
    )


def _after_fork():
    recorder.after_fork()
    sampler.after_fork()
    training.after_fork()
    windows.after_fork()


def stop():
    """Ends the measuring: everything is as it was before, but for wrappers that others hold."""
    recorder.stop()
    training.unhook()
    collector.unhook()
    patches.put_back_all()
    imports.forget()
