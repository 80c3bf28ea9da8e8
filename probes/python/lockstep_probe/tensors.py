"""Calls that make the host wait for a GPU, and copies to one."""

import sys

from . import patches, recorder, wire
from .places import is_torchs_own

_checked_copies = 0
_cost_is_told = False


def hook(torch):
    """For good: programs and torch itself keep tables by these methods, which must find them when
    the measuring has ended.
    """
    for name in ("item", "tolist", "numpy", "__bool__"):
        _hook_method(torch, name, _reads_value(f"Tensor.{name}".encode()))
    _hook_method(torch, "cpu", _reads_value(b"Tensor.cpu", only_on_device=True))
    _hook_method(torch, "to", _moves(b"Tensor.to"))
    _hook_method(torch, "cuda", _moves(b"Tensor.cuda"))


def _hook_method(torch, name, make):
    patches.replace(torch.Tensor, name, make, for_good=True)
    method = getattr(torch.Tensor, name)
    if not getattr(method, "_lockstep", False):
        return
    # as it is found when it is pickled
    method.__module__, method.__qualname__ = "torch", f"Tensor.{name}"
    lazy = getattr(torch.nn.parameter, "UninitializedTensorMixin", None)
    allowed = getattr(lazy, "_allowed_methods", None)
    if (
        isinstance(allowed, list)
        and name in ("to", "cpu", "cuda")
        and not any(each is method for each in allowed)
    ):
        allowed.append(method)  # a lazy layer may be moved before it has a shape


def hook_cuda(module):
    """module: torch.cuda."""
    patches.replace(module, "synchronize", patches.timed(wire.SYNC, b"cuda.synchronize"))
    patches.replace(module, "empty_cache", patches.timed(wire.SYNC, b"cuda.empty_cache"))


def _plain_types():
    """A subclass's attributes may be anything, and asking for them is seen by its
    __torch_function__.
    """
    torch = sys.modules["torch"]
    return (torch.Tensor, torch.nn.Parameter)


def _reads_value(what, only_on_device=False):
    def make(original):
        span, short_read, now, frame, on_training_thread = (
            recorder.span,
            recorder.short_read,
            recorder.now,
            sys._getframe,
            recorder.on_training_thread,
        )
        short_ns, sync, on_device, plain, is_compiling = (
            recorder.SHORT_NS,
            wire.SYNC,
            wire.ON_DEVICE,
            _plain_types(),
            patches.compiling_check(),
        )

        passing = passed = 0

        def method(self, *args, **kwargs):
            nonlocal passing, passed
            if is_compiling() or type(self) not in plain:
                return original(self, *args, **kwargs)
            on_gpu = self.is_cuda
            if passing > 0 and not on_gpu:
                passing -= 1
                passed += 1
                return original(self, *args, **kwargs)
            if not on_training_thread() or (only_on_device and not on_gpu):
                return original(self, *args, **kwargs)
            caller = frame(0).f_back
            # Torch reads its own small numbers on the CPU all the time (Adam's step count): no
            # wait, and no line to change.
            if not on_gpu and (caller is None or is_torchs_own(caller.f_code.co_filename)):
                return original(self, *args, **kwargs)
            begin = now()
            result = original(self, *args, **kwargs)
            end = now()
            if end - begin < short_ns and caller is not None:
                if on_gpu:
                    short_read(what, begin, end, caller, on_device, 1)
                else:
                    stands_for, passed = 1 + passed, 0
                    passing = short_read(what, begin, end, caller, 0, stands_for)
                    if passing > 0 and not _cost_is_told:
                        passing = 1 << 20
                        _tell_cost(method, original, self)
                        passing = passed = 0
            else:
                span(sync, what, begin, end, caller, on_device if on_gpu else 0)
            return result

        return method

    return make


def _tell_cost(method, original, tensor):
    """What a hook adds to each of very many calls, measured here and now."""
    global _cost_is_told
    _cost_is_told = True
    costs = []
    for _ in range(5):
        began = recorder.now()
        for _ in range(40):
            method(tensor)
        between = recorder.now()
        for _ in range(40):
            original(tensor)
        costs.append((2 * between - began - recorder.now()) / 40)
    passing_ns = max(0.0, sorted(costs)[2])
    measured_ns = recorder.cost_of_short_read() / (1 + recorder.MEAN_STRIDE)
    recorder.fact("hooks", read_ns=round(passing_ns + measured_ns))


def _moves(what):
    def make(original):
        now, frame, on_training_thread = recorder.now, sys._getframe, recorder.on_training_thread
        plain, is_compiling = _plain_types(), patches.compiling_check()

        def method(self, *args, **kwargs):
            if is_compiling() or type(self) not in plain or not on_training_thread():
                return original(self, *args, **kwargs)
            begin = now()
            result = original(self, *args, **kwargs)
            if result is not self and type(result) in plain and result.is_cuda != self.is_cuda:
                end = now()
                if result.is_cuda:
                    recorder.span(
                        wire.COPY,
                        what,
                        begin,
                        end,
                        frame(0).f_back,
                        _how_copied(self, args, kwargs),
                        self.nbytes,
                    )
                else:
                    recorder.span(
                        wire.SYNC, what, begin, end, frame(0).f_back, wire.ON_DEVICE, self.nbytes
                    )
            return result

        return method

    return make


def _how_copied(source, args, kwargs):
    """Asking whether memory is pinned takes microseconds: of many copies only the first and every
    64th are asked.
    """
    global _checked_copies
    _checked_copies += 1
    flags = wire.ON_DEVICE
    if not (kwargs.get("non_blocking") or any(argument is True for argument in args)):
        flags |= wire.BLOCKING
    if (_checked_copies <= 64 or _checked_copies % 64 == 0) and not source.is_pinned():
        flags |= wire.PAGEABLE
    return flags
