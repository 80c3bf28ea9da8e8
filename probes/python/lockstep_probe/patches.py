"""Replaces functions and methods of other people's modules, and puts them back."""

import functools

from . import recorder

_replaced = []


def replace(owner, name, make):
    """owner.name becomes make(original). Does nothing where there is no such name."""
    original = owner.__dict__.get(name) if isinstance(owner, type) else None
    if original is None:
        original = getattr(owner, name, None)
    if original is None or getattr(original, "_lockstep", False):
        return
    inherited = isinstance(owner, type) and name not in owner.__dict__
    replacement = make(original)
    try:
        functools.update_wrapper(replacement, original)
    except (AttributeError, TypeError):
        pass
    replacement._lockstep = True
    setattr(owner, name, replacement)
    _replaced.append((owner, name, original, replacement, inherited))


def timed(part, what):
    """A maker of wrappers that write one span a call on the training thread."""

    def make(original):
        span, now, on_training_thread = recorder.span, recorder.now, recorder.on_training_thread
        from sys import _getframe as frame

        def wrapper(*args, **kwargs):
            if not on_training_thread():
                return original(*args, **kwargs)
            begin = now()
            result = original(*args, **kwargs)
            span(part, what, begin, now(), frame(1))
            return result

        return wrapper

    return make


def put_back_all():
    """What another tool replaced after us stays: its wrapper calls ours, which then only passes on."""
    for owner, name, original, replacement, inherited in reversed(_replaced):
        try:
            current = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
            if current is not replacement:
                continue
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        except (AttributeError, TypeError):
            pass
    _replaced.clear()
