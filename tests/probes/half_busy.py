"""Keeps virtual GPU 31 busy half of the time while its main thread sleeps.

usage: half_busy.py SECONDS [hidden]     hidden: nobody but root may trace it
"""

import ctypes
import sys
import threading
import time
import zlib

libc = ctypes.CDLL(None)
PR_SET_DUMPABLE, PR_SET_NAME = 4, 15
DATA = b"x" * 2_000_000


def virtual_gpu():
    libc.prctl(PR_SET_NAME, b"vgpu31", 0, 0, 0)
    while True:
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            zlib.crc32(DATA)
        time.sleep(0.2)


if "hidden" in sys.argv:
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
threading.Thread(target=virtual_gpu, daemon=True).start()
print("ready", flush=True)
time.sleep(float(sys.argv[1]))
