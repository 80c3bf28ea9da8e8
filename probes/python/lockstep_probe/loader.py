"""Data loaders: how long the rank waits for each batch, how long a worker takes for one, and how
the loader is set up.
"""

import sys
import weakref

from . import loader_trial, patches, recorder, training, wire

_DEEPEST_SAMPLER = 8  # samplers around samplers
_WAIT = b"DataLoader"
_START = b"DataLoader workers start"
_FETCH = b"fetch a batch"

_loader_of = weakref.WeakKeyDictionary()  # iterator -> what gives its loader
_passes = weakref.WeakKeyDictionary()  # loader -> passes begun so far


def _no_loader():
    return None


def hook(module):
    """module: torch.utils.data.dataloader."""
    patches.replace(module._BaseDataLoaderIter, "__next__", _wait)
    patches.replace(module.DataLoader, "__iter__", _begin_pass)


def hook_fetch(module):
    """module: torch.utils.data._utils.fetch. Runs in the workers, or in the rank where there are
    none.
    """
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        patches.replace(getattr(module, name), "fetch", _fetch)


def hook_worker(module):
    """module: torch.utils.data._utils.worker."""

    def make(original):
        def worker_loop(*args, **kwargs):
            recorder.become_worker()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.remove_at_exit()  # workers end by os._exit

        return worker_loop

    patches.replace(module, "_worker_loop", make)


def _wait(original):
    span, now, frame, in_loop, part, what = (
        recorder.span,
        recorder.now,
        sys._getframe,
        recorder.in_loop,
        wire.DATA_WAIT,
        _WAIT,
    )

    def __next__(self):
        if loader_trial.running:
            return original(self)
        if (
            loader_trial.wanted
            and recorder.on_training_thread()
            and training.steps() > 0
            and (loader := _loader_of.get(self, _no_loader)()) is not None
        ):
            loader_trial.run(loader)
        begin = now()
        batch = original(self)
        end = now()
        try:
            caller = frame(1)
        except ValueError:  # called by no Python function
            return batch
        if caller.f_code is recorder.short_way:
            in_loop(((part, what, 0, id(self._dataset) & 0xFFFFFFFF), begin, end, caller.f_lasti))
        else:
            span(part, what, begin, end, caller, 0, 0, id(self._dataset) & 0xFFFFFFFF)
        return batch

    return __next__


def _begin_pass(original):
    def __iter__(self):
        begin = recorder.now()
        iterator = original(self)
        end = recorder.now()
        if loader_trial.running:
            return iterator
        try:
            # One that keeps its iterator would be kept by it for ever; others may live no longer
            # than the loop's first line.
            _loader_of[iterator] = weakref.ref(self) if self.persistent_workers else lambda: self
            _describe(self)
            if self.num_workers > 0 and end - begin > recorder.SHORT_NS:
                recorder.span(
                    wire.DATA_WAIT,
                    _START,
                    begin,
                    end,
                    sys._getframe(0).f_back,
                    0,
                    0,
                    id(self.dataset) & 0xFFFFFFFF,
                )
        except Exception as error:
            recorder.give_up(error, "a data loader")
        return iterator

    return __iter__


def _describe(loader):
    """How the loader is set up, at the begin of each pass over it."""
    passes = _passes[loader] = _passes.get(loader, 0) + 1
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    inner = sampler
    for _ in range(_DEEPEST_SAMPLER):
        within = next(
            (
                each
                for name in ("sampler", "batch_sampler")
                if (each := getattr(inner, name, None)) is not None
            ),
            None,
        )
        if within is None or within is inner:
            break
        inner = within
    kinds = f"{type(sampler).__name__}/{type(inner).__name__}"
    sharded = (
        getattr(inner, "num_replicas", None)
        or getattr(sampler, "num_processes", None)
        or getattr(inner, "num_processes", None)
    )
    streams = isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset)
    length = None
    if not streams:  # torch notes that a stream's length was asked for, and warns from then on
        try:
            length = len(loader)
        except Exception:
            pass
    iterable = type(loader.dataset).__name__ if streams else None
    recorder.fact(
        "loader",
        id=id(loader.dataset) & 0xFFFFFFFF,
        passes=passes,
        workers=loader.num_workers,
        pin=int(bool(loader.pin_memory)),
        persistent=int(bool(loader.persistent_workers)),
        prefetch=loader.prefetch_factor,
        batch=loader.batch_size,
        batches=length,
        drop_last=int(bool(loader.drop_last)),
        shards=sharded,
        epoch=getattr(inner, "epoch", None),
        shuffle=_shuffles(inner),
        iterable=iterable,
        sampler=kinds[:60],
    )


def _shuffles(sampler):
    shuffle = getattr(sampler, "shuffle", None)
    if shuffle is None:
        return int(type(sampler).__name__ == "RandomSampler")
    return int(bool(shuffle))


def _fetch(original):
    span, now, frame = recorder.span, recorder.now, sys._getframe

    def fetch(self, possibly_batched_index):
        begin = now()
        batch = original(self, possibly_batched_index)
        if recorder.is_worker():
            try:
                span(
                    wire.DATA_WAIT,
                    _FETCH,
                    begin,
                    now(),
                    frame(0).f_back,
                    wire.IN_WORKER,
                    0,
                    id(self.dataset) & 0xFFFFFFFF,
                )
                recorder.write_queued()
            except Exception as error:
                recorder.give_up(error, "a loader's worker")
        return batch

    return fetch
