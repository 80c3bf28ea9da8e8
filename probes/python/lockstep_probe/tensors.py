"""Calls that make the host wait for a GPU, and copies to one."""

import sys

from . import patches, recorder, wire
from .places import is_torchs_own

_checked_copies = 0


def hook(torch):
    for name in ("item", "tolist", "numpy", "__bool__"):
        patches.replace(torch.Tensor, name, _reads_value(f"Tensor.{name}".encode()))
    patches.replace(torch.Tensor, "cpu", _reads_value(b"Tensor.cpu", only_on_device=True))
    patches.replace(torch.Tensor, "to", _moves(b"Tensor.to"))
    patches.replace(torch.Tensor, "cuda", _moves(b"Tensor.cuda"))


def hook_cuda(module):
    """module: torch.cuda."""
    patches.replace(module, "synchronize", patches.timed(wire.SYNC, b"cuda.synchronize"))
    patches.replace(module, "empty_cache", patches.timed(wire.SYNC, b"cuda.empty_cache"))


def _reads_value(what, only_on_device=False):
    def make(original):
        span, now, frame, on_training_thread = recorder.span, recorder.now, sys._getframe, recorder.on_training_thread
        sync, on_device = wire.SYNC, wire.ON_DEVICE

        def method(self, *args, **kwargs):
            if not on_training_thread() or (only_on_device and not self.is_cuda):
                return original(self, *args, **kwargs)
            on_gpu = self.is_cuda
            # Torch reads its own small numbers on the CPU all the time (Adam's step count): no wait, and no line to change.
            if not on_gpu and is_torchs_own(frame(1).f_code.co_filename):
                return original(self, *args, **kwargs)
            begin = now()
            result = original(self, *args, **kwargs)
            span(sync, what, begin, now(), frame(1), on_device if on_gpu else 0)
            return result

        return method

    return make


def _moves(what):
    def make(original):
        now, frame, on_training_thread = recorder.now, sys._getframe, recorder.on_training_thread

        def method(self, *args, **kwargs):
            if not on_training_thread():
                return original(self, *args, **kwargs)
            begin = now()
            result = original(self, *args, **kwargs)
            if result is not self and result.is_cuda != self.is_cuda:
                end = now()
                if result.is_cuda:
                    recorder.span(wire.COPY, what, begin, end, frame(1), _how_copied(self, args, kwargs), self.nbytes)
                else:
                    recorder.span(wire.SYNC, what, begin, end, frame(1), wire.ON_DEVICE, self.nbytes)
            return result

        return method

    return make


def _how_copied(source, args, kwargs):
    """Asking whether memory is pinned takes microseconds: of many copies only the first and every 64th are asked."""
    global _checked_copies
    _checked_copies += 1
    flags = wire.ON_DEVICE
    if not (kwargs.get("non_blocking") or any(argument is True for argument in args)):
        flags |= wire.BLOCKING
    if (_checked_copies <= 64 or _checked_copies % 64 == 0) and not source.is_pinned():
        flags |= wire.PAGEABLE
    return flags
