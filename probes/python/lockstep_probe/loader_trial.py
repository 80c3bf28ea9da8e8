"""`lockstep profile --dataloader`: how fast the training loader is by itself, with its own settings and, with --tune, with others.

Runs once, on the rank's own dataset, when the first step has shown which loader trains. Random states (torch's, Python's, NumPy's, the
samplers' own) are put back afterwards, and the training goes on with its own iterator. What a dataset itself counts or draws
from a generator of its own is not put back.
"""

import os
import random
import sys
import time

from . import recorder

_MOST_SECONDS = 10.0
_TUNE_BATCHES = 30
_TUNE_SECONDS = 4.0
_TRANSFERS = 20
wanted = "LOCKSTEP_PROBE_LOADER" in os.environ  # and not done yet
running = False


def _settings():
    words = dict(
        word.split("=", 1) for word in os.environ["LOCKSTEP_PROBE_LOADER"].split(",") if "=" in word
    )
    return int(words.get("batches", 100)), words.get("tune") == "1"


def run(loader):
    """Never raises: a loader that cannot be made again is said to be so."""
    global wanted, running
    wanted = False
    running = True
    states = _random_states(loader)
    try:
        batches, tune = _settings()
        if loader.num_workers == 0 and isinstance(
            loader.dataset, sys.modules["torch.utils.data"].IterableDataset
        ):
            raise ValueError(
                "a stream that the training process reads itself would lose what a trial reads"
            )
        _time_alone(loader, batches)
        if tune:
            for workers in _worker_counts():
                _time(_like(loader, workers), _TUNE_BATCHES, _TUNE_SECONDS, "trial", workers)
    except Exception as error:
        recorder.fact("loader_failed", why=f"{type(error).__name__}:{error}"[:150])
    finally:
        running = False
        _put_back(states)


def _worker_counts():
    cores = len(os.sched_getaffinity(0))
    # those that wait for a disk need no core
    return [count for count in (0, 1, 2, 4, 8, 16) if count <= max(4, cores)]


def _like(loader, workers):
    """The same loader with another number of workers."""
    cls = sys.modules["torch.utils.data"].DataLoader
    settings = {
        "num_workers": workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout if workers else 0,
        "worker_init_fn": loader.worker_init_fn,
    }
    if workers:
        settings["prefetch_factor"] = loader.prefetch_factor or 2
        settings["multiprocessing_context"] = loader.multiprocessing_context
    if isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset):
        settings.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    elif loader.batch_sampler is not None:
        settings["batch_sampler"] = loader.batch_sampler
    else:
        settings.update(batch_size=loader.batch_size, sampler=loader.sampler)
    return cls(loader.dataset, **settings)


def _time_alone(loader, batches):
    kept = _time(
        _like(loader, loader.num_workers),
        batches,
        _MOST_SECONDS,
        "alone",
        loader.num_workers,
        keep=_TRANSFERS,
    )
    _time_transfers(kept)


def _time(loader, batches, most_seconds, name, workers, keep=0):
    kept = []
    lengths = []
    began = time.perf_counter()
    last = began
    iterator = iter(loader)
    try:
        for batch in iterator:
            now = time.perf_counter()
            lengths.append(now - last)
            last = now
            if len(kept) < keep:
                kept.append(batch)
            if len(lengths) >= batches or now - began > most_seconds:
                break
    finally:
        del iterator
    if not lengths:
        return kept
    later = lengths[1:] or lengths  # the first one waits for the workers to start
    recorder.fact(
        "loader_" + name,
        workers=workers,
        batches=len(lengths),
        first_ms=round(lengths[0] * 1e3, 3),
        batch_ms=round(sum(later) / len(later) * 1e3, 4),
        longest_ms=round(max(later) * 1e3, 3),
        prefetch=loader.prefetch_factor,
        batch=loader.batch_size,
    )
    return kept


def _tensors(batch):
    torch = sys.modules["torch"]
    if isinstance(batch, torch.Tensor):
        return [batch]
    if isinstance(batch, dict):
        return [tensor for value in batch.values() for tensor in _tensors(value)]
    if isinstance(batch, (list, tuple)):
        return [tensor for value in batch for tensor in _tensors(value)]
    return []


def _time_transfers(batches):
    torch = sys.modules["torch"]
    lists = [tensors for batch in batches if (tensors := _tensors(batch))]
    if not lists:
        return
    size = sum(tensor.nbytes for tensor in lists[0])
    if not torch.cuda.is_available():
        recorder.fact("loader_transfer", bytes=size)
        return
    device = torch.device("cuda", torch.cuda.current_device())

    def timed(tensor_lists, non_blocking):
        lengths = []
        for tensors in tensor_lists:
            torch.cuda.synchronize()
            began = time.perf_counter()
            for tensor in tensors:
                tensor.to(device, non_blocking=non_blocking)
            torch.cuda.synchronize()
            lengths.append(time.perf_counter() - began)
        return sorted(lengths)[len(lengths) // 2] * 1e3

    pageable = [
        [tensor.clone() if tensor.is_pinned() else tensor for tensor in tensors]
        for tensors in lists
    ]
    pinned = [
        [tensor if tensor.is_pinned() else tensor.pin_memory() for tensor in tensors]
        for tensors in lists
    ]
    timed(pinned[:2], True)  # the first copies set things up
    recorder.fact(
        "loader_transfer",
        bytes=size,
        pageable_ms=round(timed(pageable, False), 4),
        pinned_ms=round(timed(pinned, True), 4),
    )


def _generators(loader):
    """Those that deal out the user's data: a trial must not draw from them."""
    sampler, batches = getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)
    holders = (loader, sampler, batches, getattr(batches, "sampler", None))
    found = {
        id(each): each
        for holder in holders
        if (each := getattr(holder, "generator", None)) is not None and hasattr(each, "get_state")
    }
    return list(found.values())


def _random_states(loader):
    torch = sys.modules["torch"]
    numpy = sys.modules.get("numpy")
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    own = [(generator, generator.get_state()) for generator in _generators(loader)]
    return (
        torch.get_rng_state(),
        random.getstate(),
        numpy.random.get_state() if numpy is not None else None,
        cuda,
        own,
    )


def _put_back(states):
    torch_state, python_state, numpy_state, cuda, own = states
    sys.modules["torch"].set_rng_state(torch_state)
    random.setstate(python_state)
    if numpy_state is not None:
        sys.modules["numpy"].random.set_state(numpy_state)
    if cuda is not None:
        sys.modules["torch"].cuda.set_rng_state_all(cuda)
    for generator, state in own:
        generator.set_state(state)
