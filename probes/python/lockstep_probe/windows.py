"""Has the CUDA probe on for a few steps at a time.

CUPTI makes each launch dearer, and goes on doing so when its records are switched off: a run would
be slower under the probe than without it, and the report would blame the program. So the first
window begins behind steps without CUPTI, and CUPTI leaves the process behind each window, where no
other thread has run since the first steps (one that calls CUDA meanwhile could take the program
down). What a
window costs, switching included, is measured against the steps around it, and windows are as rare
as it takes for the whole run to be slowed by less than 1 %, with all that the hooks and the sampler
cost beside them. All ranks count the same steps, and the distances are powers of two: windows of
several ranks fall on the same steps and are waited for once.
"""

import ctypes
import os
import statistics
import sys
import threading
import time

from . import recorder, sampler

STEPS = 8  # of a window
# The steps behind which they begin: a run of some hundred steps has three, whatever they cost.
FIRST, SECOND, THIRD = 8, 32, 128
LATER_FIRST, LATER_SECOND = 16, 48  # where CUPTI will stay: only steps before are without it
SHARE = 0.005  # of the time, that windows may cost
LEAST = 0.02  # noise can make a window look free
NEAREST = 32  # steps from one to the next, at least
REFILL = 4  # steps that a host may take to be ahead of its GPU again

_switch = _may_leave = _detach = _is_alone = None
_edges = None  # steps at which something is to be done, and what
_costs = []
_began = _before = _within = None
_switching = 0  # nanoseconds of this window
_stays = False  # CUPTI, since other threads run


def end_of_step(steps, now):
    """Called behind every fourth step, and behind the first."""
    global _edges
    if _edges is None:
        if _is_capturing():
            return
        found = _find()
        if found is None:
            return  # nothing uses a GPU yet
        _edges = _plan(max(FIRST, steps + 4 - steps % 4)) if found else {}
        if _edges:
            _switch(0)
    do = _edges.get(steps)
    if do is None:
        return
    if _is_capturing():  # a CUDA graph: nobody may wait for the GPU now
        _edges = {at + 4: then for at, then in _edges.items() if at >= steps}
        return
    do(steps, now)


def in_use():
    return _switch is not None


def rest(steps):
    """No window is measured in the next two steps, nor the steps around it."""
    return not _edges or min(_edges) > steps + 2


def leave():
    """The measuring is over. False while a CUDA graph is captured: to be called again."""
    global _switch
    if _switch is not None:
        if _is_capturing():
            return False
        _switch(0)
        _leave()
        _switch = None
    return True


def close():
    """At the end of the program: what CUPTI has is handed over while it is whole."""
    if _switch is not None and not _is_capturing():
        _switch(0)


def after_fork():
    """CUDA does not outlive a fork; the child may begin its own."""
    global _edges, _switch, _began, _before, _within
    _edges = _switch = _began = _before = _within = None
    del _costs[:]


def _is_capturing():
    torch = sys.modules.get("torch")
    return (
        torch is not None
        and torch.cuda.is_initialized()
        and torch.cuda.is_current_stream_capturing()
    )


def _leave():
    """What it took CUPTI to leave the process, 0 where it stays."""
    harmless = _harmless()
    return _detach(*harmless) if _may_leave(*harmless) else 0


def _harmless():
    """Threads that run now and then, and cannot while Python's lock is held."""
    numbers = [
        thread.native_id
        for thread in threading.enumerate()
        if thread.native_id is not None
        and (thread is sampler.thread() or type(thread).__name__ == "TMonitor")
    ]
    return (ctypes.c_int * len(numbers))(*numbers), len(numbers)


def _find():
    """None: the driver has not loaded the probe yet."""
    global _switch, _may_leave, _detach, _is_alone
    path = os.environ.get("CUDA_INJECTION64_PATH", "")
    if os.environ.get("LOCKSTEP_CUDA_PROBE") == "always" or not path.endswith(
        "liblockstep_cuda_probe.so"
    ):
        return False
    try:
        probe = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        # holds on to Python's lock: nothing of Python's runs, nor frees what is CUDA's, meanwhile
        locked = ctypes.PyDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    try:
        _may_leave, _detach = probe.lockstep_cuda_probe_may_leave, locked.lockstep_cuda_probe_detach
        _is_alone, _switch = probe.lockstep_cuda_probe_is_alone, probe.lockstep_cuda_probe_window
    except AttributeError:
        return False  # of another version
    _detach.restype = ctypes.c_uint64
    for call in (_may_leave, _detach, _is_alone):
        call.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_int]
    return True


def _is_one_of_many():
    """A rank beside others: NCCL's watchdog runs, and all ranks begin behind the same step."""
    distributed = sys.modules.get("torch.distributed")
    return (
        distributed is not None
        and distributed.is_available()
        and distributed.is_initialized()
        and distributed.get_world_size() > 1
    )


def _plan(begin):
    """A window, with as many steps before and behind it that are measured without."""
    return {
        max(4, begin - STEPS): _look,
        begin: _open,
        begin + STEPS: _close,
        begin + STEPS + REFILL: _look,
        begin + 2 * STEPS + REFILL: _learn,
    }


def _look(steps, now):
    global _began
    _began = (steps, now)


def _open(steps, now):
    global _began, _before, _switching, _edges
    if steps < LATER_FIRST and not _costs and (_is_one_of_many() or not _is_alone(*_harmless())):
        _edges = _plan(LATER_FIRST)
        return
    _before = (now - _began[1]) / (steps - _began[0]) if _began else None
    _switch(1)
    opened = time.monotonic_ns()
    _switching = opened - now
    _began = (steps, opened)


def _close(steps, now):
    global _within, _stays
    _switch(0)
    leaving = _leave()
    _stays = leaving == 0
    switching = 0 if _stays else _switching + leaving  # it came once and for all
    _within = (now - _began[1] + switching) / (steps - _began[0])


def _learn(steps, now):
    global _edges
    behind = (now - _began[1]) / (steps - _began[0])
    without = (behind + _before) / 2 if _before and not _stays else behind
    _costs.append(_within / max(1, without) - 1)
    del _costs[:-9]
    cost = statistics.median(_costs)
    recorder.fact("cuda_window", cost=round(cost, 4), windows=len(_costs))
    second = SECOND if steps < SECOND else LATER_SECOND
    _edges = _plan(second if len(_costs) == 1 and steps < second else _next(steps, cost))
    if steps in _edges:
        _look(steps, now)


def _next(steps, cost):
    """The step behind which the next window begins."""
    distance = THIRD
    if len(_costs) > 2:
        distance = NEAREST
        while distance < max(LEAST, cost) * STEPS / SHARE:
            distance *= 2
    begin = steps - steps % distance + distance
    return begin if begin - STEPS >= steps else begin + distance
