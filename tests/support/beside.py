"""Programs that run beside a test, and what must not be left of them.

A launcher's ranks have sessions of their own: killing torchrun at once leaves them training, and
whatever is measured next is measured beside them.
"""

import os
import signal
import subprocess
import sys
import time

MARK = "LOCKSTEP_TEST_PROGRAM"  # inherited by everything that a test starts


def stop(process):
    """Ends a program that was started in a session of its own, with the ranks it started."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    except ProcessLookupError:
        process.wait()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def mark():
    """From here on, what this test starts can be told from other programs."""
    os.environ[MARK] = str(os.getpid())


def left_behind():
    """The processes that this test started and that still run, as (pid, command)."""
    wanted = f"{MARK}={os.getpid()}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # ended meanwhile, or nobody's business
            continue
        if command:  # a zombie has none
            found.append((int(name), command))
    return found


def end_of_test(patience_s=10):
    """False, with a sentence, where something still runs; it does not any more then."""
    until = time.monotonic() + patience_s
    while (found := left_behind()) and time.monotonic() < until:
        time.sleep(0.2)
    for pid, command in found:
        print(f"left behind by the test: process {pid}, {command[:200]}", file=sys.stderr)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return not found
