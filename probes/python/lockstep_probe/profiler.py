"""Makes way for torch.profiler: CUPTI's records have one user, and it is the program's own."""

import ctypes
import os

from . import patches


def hook(module):
    """torch.autograd.profiler: what every way of profiling goes through before CUPTI is asked for
    anything.
    """
    for name in ("_prepare_profiler", "_enable_profiler"):
        patches.replace(module, name, _make_way)


def _make_way(original):
    def wrapper(*args, **kwargs):
        if len(args) < 2 or any("CUDA" in str(activity) for activity in args[1]):
            stop_cuda_probe()
        return original(*args, **kwargs)

    return wrapper


def stop_cuda_probe():
    path = os.environ.get("CUDA_INJECTION64_PATH", "")
    if not path.endswith("liblockstep_cuda_probe.so"):
        return
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW).lockstep_cuda_probe_stop()
    except OSError:
        pass  # the driver has not loaded it: nothing uses a GPU yet
