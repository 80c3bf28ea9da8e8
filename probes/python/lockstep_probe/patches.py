"""Replaces functions and methods of other people's modules, and puts them back."""

import functools
import sys

from . import recorder

_replaced = []


def replace(owner, name, make, for_good=False):
    """owner.name becomes make(original). Does nothing where there is no such name. `for_good`:
    put_back_all leaves it.
    """
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
    if not for_good:
        _replaced.append((owner, name, original, replacement, inherited))


def compiling_check():
    """What tells whether torch.compile traces the caller: then a wrapper passes on, or its clock
    would become part of the graph.
    """
    torch = sys.modules.get("torch")
    for module, name in (
        ("compiler", "is_dynamo_compiling"),
        ("compiler", "is_compiling"),
        ("_utils", "is_compiling"),
    ):
        check = getattr(getattr(torch, module, None), name, None)
        if check is not None:
            return check
    return bool  # False: no torch


def timed(part, what):
    """A maker of wrappers that write one span a call on the training thread."""

    def make(original):
        span, now, on_training_thread = recorder.span, recorder.now, recorder.on_training_thread
        frame, is_compiling = sys._getframe, compiling_check()

        def wrapper(*args, **kwargs):
            if is_compiling() or not on_training_thread():
                return original(*args, **kwargs)
            begin = now()
            result = original(*args, **kwargs)
            span(part, what, begin, now(), frame(0).f_back)
            return result

        return wrapper

    return make


def put_back_all():
    """What another tool replaced after us stays: its wrapper calls ours, which then only passes
    on.
    """
    for owner, name, original, replacement, inherited in reversed(_replaced):
        try:
            current = (
                owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name, None)
            )
            if current is not replacement:
                continue
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        except (AttributeError, TypeError):
            pass
    _replaced.clear()
