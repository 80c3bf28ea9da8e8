"""Collectives that the program calls itself: metrics that are reduced, barriers. DDP's own do not
come this way.
"""

import sys

from . import patches, recorder, wire

_NAMES = (
    "all_reduce",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "broadcast",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "monitored_barrier",
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
)


def hook(module):
    """module: torch.distributed.distributed_c10d. torch.distributed takes its names from there."""
    for name in _NAMES:
        patches.replace(module, name, patches.timed(wire.COLLECTIVE, name[:32].encode()))

    def make(original):
        def init_process_group(*args, **kwargs):
            result = original(*args, **kwargs)
            _tell_rank(module)
            return result

        return init_process_group

    patches.replace(module, "init_process_group", make)


def hook_names(package):
    """package: torch.distributed, which imported the names before they were replaced."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    for name in (*_NAMES, "init_process_group"):
        wrapped = getattr(module, name, None)
        if getattr(wrapped, "_lockstep", False) and getattr(package, name, None) is getattr(
            wrapped, "__wrapped__", None
        ):
            patches.replace(package, name, lambda original, wrapped=wrapped: _same(wrapped))


def _same(wrapped):
    def call(*args, **kwargs):
        return wrapped(*args, **kwargs)

    return call


def _tell_rank(module):
    try:
        recorder.set_rank(module.get_rank(), module.get_world_size())
    except Exception as error:
        recorder.give_up(error, "the rank")
