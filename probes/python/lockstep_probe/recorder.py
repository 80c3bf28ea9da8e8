"""Takes what the hooks saw and writes it to this process's ring, which is made with the first record.

Long pieces of work are written one by one. Short ones (a print, an .item() on the CPU) are summed up by place and written at
the end of the step, so that a loop over thousands of them costs a dictionary entry each and not a record.
"""

import os
import sys
import threading
import time

from . import places, wire

now = time.monotonic_ns
SHORT_NS = 20_000
_MOST_PLACES = 256

_ring = None
_failed = False
_stopped = False
_role = wire.ROLE_RANK
_short = {}
_training_thread = threading.get_ident()
_thread_number = 0
_rank = None
_world_size = None


def _integer(name):
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


def give_up(error, doing):
    """Says once why nothing more is written. The program goes on."""
    global _failed
    if _failed:
        return
    _failed = True
    try:
        print(f"lockstep: the Python probe stops ({doing}): {type(error).__name__}: {error}", file=sys.stderr)
    except Exception:
        pass


def _open():
    global _ring, _thread_number
    if _failed or _stopped:
        return None
    try:
        folder = wire.folder()
        if folder is None:
            raise OSError("its folder is missing or belongs to somebody else")
        rank = _rank if _rank is not None else _integer("RANK")
        world_size = _world_size if _world_size is not None else _integer("WORLD_SIZE")
        _ring = wire.Ring(os.path.join(folder, f"wire-{os.getpid()}.ring"), _role, rank, world_size)
        _thread_number = wire.thread_number()
    except Exception as error:
        give_up(error, "no ring")
    return _ring


def ring():
    return _ring if _ring is not None else _open()


def active():
    return not (_failed or _stopped)


def stop():
    """No more records; what was written stays for its reader."""
    global _stopped
    _stopped = True


def set_rank(rank, world_size):
    global _rank, _world_size
    _rank, _world_size = rank, world_size
    if _ring is not None:
        _ring.set_rank(rank, world_size)


def become_worker():
    """This process serves a rank's data loader."""
    global _role
    _role = wire.ROLE_WORKER


def after_fork():
    """The parent's ring has one writer, the parent. A child that has something to say gets its own."""
    global _ring, _training_thread
    _ring = None
    _short.clear()
    _training_thread = threading.get_ident()


def remove_at_exit():
    """In a folder that is nobody's in particular; one that was named is its owner's to clean."""
    if _ring is not None and not os.environ.get("LOCKSTEP_PROBE_FOLDER"):
        try:
            os.unlink(_ring.path)
        except OSError:
            pass


def on_training_thread():
    return threading.get_ident() == _training_thread


def follow_this_thread():
    """Steps end on this thread: it is the one whose time is accounted for."""
    global _training_thread, _thread_number
    if threading.get_ident() != _training_thread:
        _training_thread = threading.get_ident()
        _thread_number = wire.thread_number()


def training_thread():
    return _training_thread


def span(part, what, begin, end, frame, flags=0, size=0, subject=0):
    """One piece of work. `frame` is the caller's; its place is looked up here."""
    target = _ring if _ring is not None else _open()
    if target is None or _stopped:
        return
    frame = places.users_frame(frame)
    if frame is None:
        name, line, loop_line = "", 0, 0
    else:
        name, line, loop_line = frame.f_code.co_filename, frame.f_lineno, places.loop_line(frame)
    if threading.get_ident() != _training_thread:
        flags |= wire.OTHER_THREAD
    elif end - begin < SHORT_NS and not flags & wire.STEP_END:
        key = (part, what, name, line, loop_line, flags, subject)
        entry = _short.get(key)
        if entry is None:
            _short[key] = [begin, end, end - begin, size, 1]
            if len(_short) > _MOST_PLACES:
                flush()
        else:
            entry[1] = end
            entry[2] += end - begin
            entry[3] += size
            entry[4] += 1
        return
    target.write_span(begin, end, end - begin, size, subject, 1, part, flags, line, _thread_number, loop_line, what,
                      places.file_field(name) if name else b"")


def flush():
    """Writes the sums of short pieces: before the record that ends their step."""
    target = _ring
    if target is None:
        return
    for (part, what, name, line, loop_line, flags, subject), (begin, end, busy, size, count) in _short.items():
        target.write_span(begin, end, busy, size, subject, count, part, flags | wire.SUMMED, line, _thread_number, loop_line, what,
                          places.file_field(name) if name else b"")
    _short.clear()


def raw_span(part, what, begin, end, flags=0, size=0, subject=0):
    """A piece of work without a place in the source."""
    target = _ring if _ring is not None else _open()
    if target is not None and not _stopped:
        target.write_span(begin, end, end - begin, size, subject, 1, part, flags, 0, _thread_number, 0, what, b"")


def sample(at, weight, line, loop_line, stack, name):
    target = _ring
    if target is not None and not _stopped:
        target.write_sample(at, weight, line, loop_line, stack, places.file_field(name) if name else b"")


def fact(name, **values):
    """A setting or a count. Values are single words: spaces would end them."""
    target = ring()
    if target is None or _stopped:
        return
    words = [name] + [f"{key}={str(value).replace(' ', '_')}" for key, value in values.items() if value is not None]
    target.write_fact(" ".join(words).encode("ascii", "replace")[:240])
