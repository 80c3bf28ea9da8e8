"""Takes what the hooks saw and writes it to this process's ring, which is made with the first record.

A hook appends one tuple to a queue and is done: behind a training step of a few milliseconds every line of Python is cold in the
caches (seen: 1.5 microseconds to write a span in a loop, 15 and more between two products of matrices). A thread beside it
looks up lines, sums up and writes, many at a time.

Long pieces of work are written one by one. Short ones (a print, an .item() on the CPU) are summed up by place and written at
the end of the step. Where a step may have thousands of them the hook sums them up itself and measures few of them (1,400 .item()
of 5 ms took 14 when each went through the queue, 10 when each was measured).
"""

import collections
import os
import sys
import threading
import time

from . import places, wire

now = time.monotonic_ns
get_ident = threading.get_ident
SHORT_NS = 20_000
_MOST_PLACES = 256
_MANY_READS = 64  # of a step
MEAN_STRIDE = 12
_MOST_QUEUED = 100_000
_MOST_UNREAD = 2_000  # before the first step nobody writes
_AT_ONCE = 64  # then other threads get a turn

_queue = collections.deque()
_most = _MOST_UNREAD
_lost = 0
_ring = None
_failed = False
_stopped = False
_NO_RING = "no ring"
_role = wire.ROLE_RANK
_short = {}
_reads = {}  # (what, flags, code, instruction) -> what `short_read` has summed up in this step
_stride = 0
_loop_code = None  # of the function in which steps end: the training loop
short_way = None  # the same while hooks may use `in_loop`
_training_thread = get_ident()
_rank = None
_world_size = None
_writing = threading.Lock()


def _integer(name):
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None


def give_up(error, doing):
    """Says once why nothing more is written. The program goes on."""
    global _failed, short_way
    if _failed:
        return
    ring = _ring
    _failed, short_way = True, None
    _queue.clear()
    try:  # the report must say so: what comes now is not seen
        if ring is None and doing != _NO_RING:
            ring = _new_ring()
        if ring is not None:
            ring.write_fact(_words("stopped", doing=doing, why=f"{type(error).__name__}: {error}"))
    except Exception:
        pass
    try:
        print(
            f"lockstep: the Python probe stops ({doing}): {type(error).__name__}: {error}",
            file=sys.stderr,
        )
    except Exception:
        pass


def _new_ring():
    folder = wire.folder()
    if folder is None:
        raise OSError("its folder is missing or belongs to somebody else")
    rank = _rank if _rank is not None else _integer("RANK")
    world_size = _world_size if _world_size is not None else _integer("WORLD_SIZE")
    return wire.Ring(os.path.join(folder, f"wire-{os.getpid()}.ring"), _role, rank, world_size)


def _open():
    global _ring
    if _failed:
        return None
    try:
        _ring = _new_ring()
    except Exception as error:
        give_up(error, _NO_RING)
    return _ring


def active():
    return not (_failed or _stopped)


def stop():
    """No more records; what was written stays for its reader."""
    global _stopped, short_way
    _stopped, short_way = True, None


def set_rank(rank, world_size):
    global _rank, _world_size
    _rank, _world_size = rank, world_size
    if _ring is not None:
        _ring.set_rank(rank, world_size)


def become_worker():
    """This process serves a rank's data loader: a record a batch, written at once, for it has no
    thread beside it.
    """
    global _role
    _role = wire.ROLE_WORKER


def is_worker():
    return _role == wire.ROLE_WORKER


def after_fork():
    """The parent's ring has one writer, the parent. A child that has something to say gets its
    own.
    """
    global _ring, _training_thread, _writing, _loop_code, short_way, _most
    _ring = _loop_code = short_way = None
    _most = _MOST_UNREAD
    _queue.clear()
    _short.clear()
    _reads.clear()
    _writing = threading.Lock()
    _training_thread = get_ident()


def remove_at_exit():
    """In a folder that is nobody's in particular; one that was named is its owner's to clean."""
    if _ring is not None and not os.environ.get("LOCKSTEP_PROBE_FOLDER"):
        try:
            os.unlink(_ring.path)
        except OSError:
            pass


def on_training_thread():
    return get_ident() == _training_thread


def follow_this_thread():
    """Steps end on this thread: it is the one whose time is accounted for."""
    global _training_thread
    _training_thread = get_ident()


def training_thread():
    return _training_thread


def set_loop(frame):
    """The function in which steps end is the training loop."""
    global _loop_code, short_way
    loop = places.users_frame(frame)
    _loop_code = loop.f_code if loop is not None else None
    short_way = _loop_code if active() else None


def loop_code():
    return _loop_code


# --- what hooks call
# --------------------------------------------------------------------------------------------------

# The hooks that run every step have a shorter way for calls from the loop itself: `in_loop((site,
# begin, end, frame.f_lasti))`
# where `frame.f_code is recorder.short_way`. A site is (part, what, flags, subject). It saves 3
# microseconds a call.
in_loop = _queue.append


def span(part, what, begin, end, frame, flags=0, size=0, subject=0):
    """One piece of work. `frame` is the caller's; the user's line above it is the place."""
    global _lost
    if _failed or _stopped:
        return
    if flags & wire.STEP_END:
        hand_over_reads()
    # the collector may run where no Python function does
    code = frame.f_code if frame is not None else None
    loop = 0
    if code is not _loop_code:
        frame = places.users_frame(frame)
        code = frame.f_code if frame is not None else None
        if code is not _loop_code and code is not None:
            loop = places.loop_line(frame, _loop_code)
    if len(_queue) < _most:
        _queue.append(
            (
                part,
                what,
                begin,
                end,
                code,
                frame.f_lasti if code is not None else None,
                loop,
                flags,
                size,
                subject,
                get_ident(),
            )
        )
    else:
        _lost += 1


def short_read(what, begin, end, frame, flags, stands_for):
    """One short wait on the training thread that stands for some. Returns how many of this step
    need not be measured: of a place that has many, one in twelve is enough.
    """
    global _stride
    key = what, flags, frame.f_code, frame.f_lasti
    sums = _reads.get(key)
    if sums is not None:
        sums[1] = end
        sums[2] += stands_for * (end - begin)
        sums[3] += stands_for
        if sums[3] < _MANY_READS:
            return 0
        _stride = (_stride + 5) % 11  # never in step with a loop that reads in several places
        return MEAN_STRIDE - 5 + _stride
    if _failed or _stopped:
        return 0
    # Of the first call: a helper that the loop calls from several lines has one of them.
    place = places.users_frame(frame) or frame
    loop = places.loop_line(place, _loop_code)
    busy = stands_for * (end - begin)
    _reads[key] = [begin, end, busy, stands_for, place.f_code, place.f_lasti, loop]
    if len(_reads) > _MOST_PLACES:
        hand_over_reads()
    return 0


def cost_of_short_read():
    """In nanoseconds, of one that is measured, without what the hook does before it."""
    frame = sys._getframe()
    began = now()
    for _ in range(32):
        short_read(b"", now(), now(), frame, 0, 0)
    cost = (now() - began) / 32
    for key in [key for key in _reads if key[2] is frame.f_code]:
        del _reads[key]
    return cost


def hand_over_reads():
    """Before the record that ends their step."""
    global _reads
    if not _reads:
        return
    reads, _reads = _reads, {}
    if len(_queue) < _most:
        _queue.append(reads)


def raw_span(part, what, begin, end, flags=0, size=0, subject=0):
    """A piece of work without a place in the source."""
    span(part, what, begin, end, None, flags, size, subject)


def _words(name, /, **values):
    """name key=value ...: values are single words, spaces would end them."""
    words = [name] + [
        f"{key}={str(value).replace(' ', '_')}"
        for key, value in values.items()
        if value is not None
    ]
    return " ".join(words).encode("ascii", "replace")[:240]


def fact(name, /, **values):
    """A setting or a count."""
    if not (_failed or _stopped) and len(_queue) < _MOST_QUEUED:
        _queue.append(_words(name, **values))


def writer_runs():
    """From now on somebody takes what is queued."""
    global _most
    _most = _MOST_QUEUED


def tell_lost():
    """What found the queue full since the last time."""
    global _lost
    if _lost:
        lost, _lost = _lost, 0
        fact("lost", records=lost)


# --- the writing end
# --------------------------------------------------------------------------------------------------


def _write(entry):
    if type(entry) is bytes:
        _ring.write_fact(entry)
        return
    if type(entry) is dict:
        for (what, flags, _, _), (begin, end, busy, count, code, lasti, loop) in entry.items():
            key = (wire.SYNC, what, code.co_filename, places.line_at(code, lasti), loop, flags, 0)
            _sum_up(key, begin, end, busy, 0, count)
        return
    if len(entry) == 4:
        (part, what, flags, subject), begin, end, lasti = entry
        code, loop, size, thread = _loop_code, 0, 0, _training_thread
    else:
        part, what, begin, end, code, lasti, loop, flags, size, subject, thread = entry
    name = code.co_filename if code is not None else ""
    line = places.line_at(code, lasti) if code is not None else 0
    if thread != _training_thread:
        flags |= wire.OTHER_THREAD
    elif end - begin < SHORT_NS and not flags & wire.STEP_END and part != wire.DATA_WAIT:
        key = (part, what, name, line, loop, flags, subject)
        _sum_up(key, begin, end, end - begin, size, 1)
        return
    if flags & wire.STEP_END:
        _write_sums()
    _ring.write_span(
        begin,
        end,
        end - begin,
        size,
        subject,
        1,
        part,
        flags,
        line,
        0,
        loop,
        what,
        places.file_field(name) if name else b"",
    )


def _sum_up(key, begin, end, busy, size, count):
    sums = _short.get(key)
    if sums is None:
        _short[key] = [begin, end, busy, size, count]
        if len(_short) > _MOST_PLACES:
            _write_sums()
    else:
        sums[1] = end
        sums[2] += busy
        sums[3] += size
        sums[4] += count


def _write_sums():
    """Before the record that ends their step."""
    for (part, what, name, line, loop, flags, subject), (
        begin,
        end,
        busy,
        size,
        count,
    ) in _short.items():
        _ring.write_span(
            begin,
            end,
            busy,
            size,
            subject,
            count,
            part,
            flags | wire.SUMMED,
            line,
            0,
            loop,
            what,
            places.file_field(name) if name else b"",
        )
    _short.clear()


def write_queued(most=None):
    """Writes what hooks have queued; False: there is more."""
    if not _queue:
        return True
    with _writing:
        if _ring is None and _open() is None:
            return True
        for _ in range(most if most is not None else len(_queue) + 1):
            try:
                entry = _queue.popleft()
            except IndexError:
                return True
            _write(entry)
    return not _queue


def write_sample(at, weight, line, loop_line, stack, name):
    with _writing:
        if _ring is not None and not _stopped:
            _ring.write_sample(
                at, weight, line, loop_line, stack, places.file_field(name) if name else b""
            )
