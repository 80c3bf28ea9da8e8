"""Python's garbage collector: it stops the program while it looks for cycles."""

import _thread
import dis
import gc
import signal
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
        caller = sys._getframe().f_back
        what = _WHAT[min(info.get("generation", 0), 2)]
        if caller is not None and "collect" in caller.f_code.co_names and _calls_collect(caller):
            what = b"gc.collect"
        recorder.span(wire.GC, what, _began, end, caller)


def _calls_collect(frame):
    """Whether the program asked for it: `collect` is the last name that was loaded before this
    call.
    """
    name = None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset > frame.f_lasti:
            break
        if instruction.opname.startswith("LOAD_") and isinstance(instruction.argval, str):
            name = instruction.argval
    return name == "collect"


_unraisable_before = None


def _raise_again(thread, kind):
    """In that thread, where it was to be raised."""
    if kind is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.pthread_kill(thread, signal.SIGINT)  # a call that waits is to end, too
        return
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _unraisable(unraisable):
    """Ctrl-C behind a collection is noticed in the first line of our callback, from which Python lets nothing through:
    what it raised would be lost.
    """
    if unraisable.object is _collected and unraisable.exc_type is not None:
        _thread.start_new_thread(_raise_again, (_thread.get_ident(), unraisable.exc_type))
    elif _unraisable_before is not None:
        _unraisable_before(unraisable)


def hook():
    global _unraisable_before
    gc.callbacks.append(_collected)
    if sys.unraisablehook is not _unraisable:
        _unraisable_before, sys.unraisablehook = sys.unraisablehook, _unraisable


def unhook():
    if _collected in gc.callbacks:
        gc.callbacks.remove(_collected)
    if sys.unraisablehook is _unraisable:  # else somebody put theirs over it
        sys.unraisablehook = _unraisable_before
