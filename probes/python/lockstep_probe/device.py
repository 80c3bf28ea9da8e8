"""What the GPU did between two steps: had it work left, or did it wait for the host?

An event is put into the GPU's queue where a step ends and another where the next forward pass begins. The time between the
two, on the GPU's clock, is the time it had nothing to do: the rest of what the host did meanwhile was hidden behind its work.
Nothing ever waits for an event.
"""

import sys

from . import recorder, wire

_IDLE = b"GPU idle between steps"
_pairs = []  # (device, end of step, begin of work, host time of the latter)
_open = None  # (device, end of step) until work begins
_spare = {}  # by device: an event belongs to the one it was first recorded on
_device = None  # the rank's: another thread has its own current one
_MOST_PAIRS = 64
_EVERY = 4  # a pair takes some 20 microseconds of the host: one step in four is asked


def _cuda():
    torch = sys.modules.get("torch")
    # is_available() asks the driver each time
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def in_use():
    return _cuda() is not None


def end_of_step(step):
    global _open, _device
    if step % _EVERY:
        return
    cuda = _cuda()
    if cuda is None or cuda.is_current_stream_capturing():
        return
    _tell_finished()
    _device = cuda.current_device()
    _open = (_device, _event(cuda))
    _open[1].record()


def work_begins():
    """A forward pass: the first after the end of a step ends the pause."""
    global _open
    if _open is None:
        return
    cuda = _cuda()
    if cuda is None or len(_pairs) >= _MOST_PAIRS or cuda.is_current_stream_capturing():
        return
    device, before = _open
    _open = None
    if cuda.current_device() != device:
        return
    begin = _event(cuda)
    begin.record()
    _pairs.append((device, before, begin, recorder.now()))


def _event(cuda):
    spare = _spare.get(cuda.current_device())
    return spare.pop() if spare else cuda.Event(enable_timing=True)


def _tell_finished():
    while _pairs and _pairs[0][2].query():
        device, before, after, host = _pairs.pop(0)
        idle_ns = int(before.elapsed_time(after) * 1e6)
        recorder.raw_span(wire.OTHER, _IDLE, host - idle_ns, host, wire.GPU_IDLE)
        _spare.setdefault(device, []).extend((before, after))


def memory_fact():
    """Asked by the sampler's thread: a few counters of the caching allocator."""
    cuda = _cuda()
    if cuda is None or _device is None:
        return
    stats = cuda.memory_stats(_device)
    total = cuda.get_device_properties(_device).total_memory
    recorder.fact(
        "memory",
        allocated=stats.get("allocated_bytes.all.current"),
        peak=stats.get("allocated_bytes.all.peak"),
        reserved=stats.get("reserved_bytes.all.current"),
        retries=stats.get("num_alloc_retries"),
        device_allocs=stats.get("num_device_alloc"),
        total=total,
    )
