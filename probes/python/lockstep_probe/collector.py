"""Python's garbage collector: it stops the program while it looks for cycles."""

import gc
import sys

from . import recorder, wire

_began = 0
# the youngest generation's look takes less, every other step: writing each down costs more than it
# takes
_SHORT_NS = 200_000
_WHAT = (b"gc generation 0", b"gc generation 1", b"gc generation 2")


def _collected(phase, info):
    global _began
    if phase == "start":
        _began = recorder.now()
        return
    if not _began or not recorder.active():
        return
    end = recorder.now()
    if end - _began >= _SHORT_NS:
        recorder.span(
            wire.GC, _WHAT[min(info.get("generation", 0), 2)], _began, end, sys._getframe().f_back
        )


def hook():
    gc.callbacks.append(_collected)


def unhook():
    if _collected in gc.callbacks:
        gc.callbacks.remove(_collected)
