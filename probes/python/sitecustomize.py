"""Starts lockstep's Python probe, then the sitecustomize that this one hides.

Python imports `sitecustomize` before the program. `lockstep profile` puts this folder first on PYTHONPATH; nothing else of
the program changes. Whatever goes wrong here is said once and the program runs as if the probe were not there.
"""

import os
import sys


def _start_probe():
    if "python" not in os.environ.get("LOCKSTEP_PROBE", "").split(","):
        return
    try:
        import lockstep_probe

        lockstep_probe.start()
    except Exception as error:  # a probe never takes the program down
        print(
            f"lockstep: the Python probe does not run: {type(error).__name__}: {error}",
            file=sys.stderr,
        )


def _run_hidden_sitecustomize():
    """The user's own: the first one behind this folder on the path."""
    import importlib.machinery
    import importlib.util

    own = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.abspath(folder or ".") for folder in sys.path]
    # another lockstep's lies there too, and looks behind itself
    behind = sys.path[folders.index(own) + 1 :] if own in folders else []
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start_probe()
_run_hidden_sitecustomize()
