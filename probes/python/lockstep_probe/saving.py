"""Checkpoints: torch.save, safetensors, torch.distributed.checkpoint."""

import os
import sys
import zlib

from . import patches, recorder, wire


def _saves(what, path_at, path_name):
    def make(original):
        def save(*args, **kwargs):
            begin = recorder.now()
            result = original(*args, **kwargs)
            end = recorder.now()
            if recorder.on_training_thread():
                target = (
                    kwargs.get(path_name)
                    if path_name in kwargs
                    else args[path_at]
                    if len(args) > path_at
                    else None
                )
                size, subject = _about(target)
                recorder.span(
                    wire.CHECKPOINT, what, begin, end, sys._getframe(0).f_back, 0, size, subject
                )
            return result

        return save

    return make


def _about(target):
    """The file's size, and a number that is the same for all ranks that write the same file."""
    try:
        target = getattr(target, "name", target)
        path = os.path.abspath(os.fspath(target))
        return os.path.getsize(path), zlib.crc32(os.fsencode(path))
    except Exception:  # whatever the program's own file object does when it is asked
        return 0, 0


def hook_torch(torch):
    patches.replace(torch, "save", _saves(b"torch.save", 1, "f"))


def hook_safetensors(module):
    """module: safetensors.torch."""
    patches.replace(module, "save_file", _saves(b"safetensors.save_file", 1, "filename"))


def hook_distributed_checkpoint(module):
    """module: torch.distributed.checkpoint.state_dict_saver."""
    for name in ("save", "async_save"):
        patches.replace(
            module, name, _saves(f"distributed.checkpoint.{name}"[:32].encode(), 9, "checkpoint_id")
        )
