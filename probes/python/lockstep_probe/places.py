"""Which line of the user's code a call comes from.

Frames of the standard library, of torch and of the probe are never the place; those of other installed packages only where
no frame of the user's own is on the stack.
"""

import dis
import os
import sysconfig
from bisect import bisect_right

_OWN = os.path.dirname(os.path.abspath(__file__))
_STDLIB = tuple(
    os.path.join(path, "")
    for path in {sysconfig.get_paths()["stdlib"], os.path.dirname(os.__file__)}
)
_FILE_BYTES = 144
_USER, _INSTALLED, _NEVER = 0, 1, 2

_kinds = {}
_files = {}


def _kind_of(name):
    if name.startswith("<"):
        return _USER if name in ("<string>", "<stdin>") else _NEVER
    if name.startswith(_OWN):
        return _NEVER
    if "/site-packages/" in name or "/dist-packages/" in name:
        return _NEVER if "-packages/torch/" in name else _INSTALLED
    if name.startswith(_STDLIB):
        return _NEVER
    return _USER


def is_users(name):
    kind = _kinds.get(name)
    if kind is None:
        kind = _kinds[name] = _kind_of(name)
    return kind == _USER


def is_installed(name):
    kind = _kinds.get(name)
    if kind is None:
        kind = _kinds[name] = _kind_of(name)
    return kind == _INSTALLED


def is_torchs_own(name):
    """Of torch, the standard library or the probe: nobody's line to change."""
    kind = _kinds.get(name)
    if kind is None:
        kind = _kinds[name] = _kind_of(name)
    return kind == _NEVER


def is_own(name):
    """Of the probe."""
    return name.startswith(_OWN)


def users_frame(frame):
    """The innermost frame of the user's code, else of an installed package, else None."""
    kinds = _kinds
    second_best = None
    while frame is not None:
        name = frame.f_code.co_filename
        kind = kinds.get(name)
        if kind is None:
            kind = kinds[name] = _kind_of(name)
        if kind == _USER:
            return frame
        if kind == _INSTALLED and second_best is None:
            second_best = frame
        frame = frame.f_back
    return second_best


_lines = {}  # id of a code object -> (the object, begins of lines, lines)


def line_at(code, lasti):
    """The line of an instruction. Some have none (the back jump of a loop that ends in `if`, from
    CPython 3.11 on): then that of the one before.
    """
    known = _lines.get(id(code))
    if known is None:
        starts = [(offset, line) for offset, line in dis.findlinestarts(code) if line]
        known = _lines[id(code)] = (
            code,
            [offset for offset, _ in starts],
            [line for _, line in starts],
        )
    position = bisect_right(known[1], lasti) - 1
    return known[2][position] if position >= 0 else code.co_firstlineno


def loop_line(frame, loop_code):
    """The line of the training loop from which this frame was reached; 0: it is the loop's own, or
    there is none.
    """
    code = frame.f_code
    if code is loop_code or loop_code is None:
        return 0
    name = code.co_filename
    frame = frame.f_back
    while frame is not None:
        if frame.f_code is loop_code:
            return line_at(loop_code, frame.f_lasti) if loop_code.co_filename == name else 0
        frame = frame.f_back
    return 0


def file_field(name):
    """A file's absolute path as the wire holds it: the end of a long one."""
    field = _files.get(name)
    if field is None:
        path = name if name.startswith("<") else os.path.abspath(name)
        raw = os.fsencode(path)
        field = _files[name] = raw[-_FILE_BYTES:]
    return field
