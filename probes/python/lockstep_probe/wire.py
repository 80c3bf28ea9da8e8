"""The writing end of the wire in Python: probes/wire/lockstep_wire.h, field by field.

A record is one `pack_into`, which holds the interpreter's lock: records of several threads never mix. Python has no store
barriers, so a reader may see the count before the content; it takes a record only at the look after the one that counted it.
"""

import itertools
import mmap
import os
import struct
import time

UNORDERED = 1
MAGIC = 0x3152574B434F4C
VERSION = 1
SLOTS = 4096
WORKER_SLOTS = 256  # a record a batch; each worker of each epoch has one

HEADER = struct.Struct("<QIIIIiIQQiiIi192x")
SPAN = struct.Struct("<QIIQQQQQIIIIII32s144s")
SAMPLE = struct.Struct("<QIIQQII72s144s")
FACT = struct.Struct("<QII240s")
COUNT = struct.Struct("<Q")
COUNT_AT = 40
RANK = struct.Struct("<ii")
RANK_AT = 48
assert HEADER.size == SPAN.size == SAMPLE.size == FACT.size == 256

SPAN_KIND, SAMPLE_KIND, FACT_KIND = 2, 3, 4

# lockstep_span
DATA_WAIT, COPY, FORWARD, BACKWARD, COLLECTIVE, COLLECTIVE_HIDDEN, OPTIMIZER = range(7)
SYNC, LOGGING, CHECKPOINT, EVALUATION, GC, OTHER = range(7, 13)

# lockstep_span_flag
STEP_END, NO_TRAINING, SYNCS, ON_DEVICE, PAGEABLE = 1, 2, 4, 8, 16
BLOCKING, IN_WORKER, OTHER_THREAD, SUMMED, GPU_IDLE = 32, 64, 128, 256, 512
# 1024: the host probe's word for a thread of autograd

ROLE_RANK, ROLE_WORKER = 0, 1


def folder():
    """Where rings lie; made when it is not there. None: the place is not ours, so nothing is
    written.
    """
    named = os.environ.get("LOCKSTEP_PROBE_FOLDER")
    if named:
        return named if os.path.isdir(named) else None
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        path = os.path.join(runtime, "lockstep")
    else:
        path = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"lockstep-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    facts = os.lstat(path)
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        return None
    return path


class Ring:
    """One process's ring. Raises OSError where the file cannot be made."""

    def __init__(self, path, role, rank, world_size):
        self.path = path
        try:
            os.unlink(path)  # of a process that had our number before
        except FileNotFoundError:
            pass
        slots = WORKER_SLOTS if role == ROLE_WORKER else SLOTS
        size = HEADER.size + slots * SPAN.size
        file = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            # not sparse: a full disk would end us at the first write
            os.posix_fallocate(file, 0, size)
            self._memory = mmap.mmap(file, size)
        finally:
            os.close(file)
        # The magic goes last: readers look for it.
        HEADER.pack_into(
            self._memory,
            0,
            0,
            VERSION,
            HEADER.size,
            SPAN.size,
            slots,
            os.getpid(),
            UNORDERED,
            time.monotonic_ns(),
            0,
            0 if rank is None else rank + 1,
            world_size or 0,
            role,
            os.getppid(),
        )
        COUNT.pack_into(self._memory, 0, MAGIC)
        self.write_span, self.write_sample, self.write_fact = self._writers(slots - 1)

    def set_rank(self, rank, world_size):
        RANK.pack_into(self._memory, RANK_AT, rank + 1, world_size)

    def _writers(self, mask):
        memory, claim = self._memory, itertools.count().__next__
        pack_span, pack_sample, pack_fact, pack_count = (
            SPAN.pack_into,
            SAMPLE.pack_into,
            FACT.pack_into,
            COUNT.pack_into,
        )

        def write_span(
            begin, end, busy, size, subject, count, part, flags, line, thread, loop_line, what, file
        ):
            place = claim()
            pack_span(
                memory,
                256 + (place & mask) * 256,
                place + 1,
                SPAN_KIND,
                240,
                begin,
                end,
                busy,
                size,
                subject,
                count,
                part,
                flags,
                line,
                thread,
                loop_line,
                what,
                file,
            )
            pack_count(memory, COUNT_AT, place + 1)

        def write_sample(at, weight, line, loop_line, stack, file):
            place = claim()
            pack_sample(
                memory,
                256 + (place & mask) * 256,
                place + 1,
                SAMPLE_KIND,
                240,
                at,
                weight,
                line,
                loop_line,
                stack,
                file,
            )
            pack_count(memory, COUNT_AT, place + 1)

        def write_fact(text):
            place = claim()
            pack_fact(memory, 256 + (place & mask) * 256, place + 1, FACT_KIND, 240, text)
            pack_count(memory, COUNT_AT, place + 1)

        return write_span, write_sample, write_fact
