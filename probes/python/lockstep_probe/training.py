"""Forward, backward and optimizer: the parts of a step, and where one step ends and the next begins.

A step ends with the optimizer's. Of several optimizers the one that stepped first marks it. The models are looked for once, at
the end of the first step: those that no other module holds. Only these are timed, so a model of a thousand layers costs no more
than one of ten.
"""

import gc
import sys
import weakref

from . import device, patches, places, recorder, sampler, wire

_MOST_MODULES = 16
_FORWARD = b"forward"
_BACKWARD = b"backward"
_WAIT_FOR_GRADIENTS = b"gradient all-reduce"

_boundary = None       # the optimizer that marks steps
_optimizer_began = 0
_steps = 0
_handles = []
_targets = {}          # id of an outermost model -> (weak reference, its number or 0 where it does not learn)
_ddp = []              # weak references to DDP wrappers
_last_gradient = 0     # when the last hooked gradient was ready
_forwards_since = 0
_rescans = 0


def steps():
    return _steps


def hook_autograd(module):
    """module: torch.autograd. Tensor.backward calls it too."""

    def make(original):
        now, frame = recorder.now, sys._getframe

        def backward(*args, **kwargs):
            global _last_gradient
            _last_gradient = 0
            begin = now()
            result = original(*args, **kwargs)
            end = now()
            if recorder.on_training_thread():
                syncs = any((wrapper := reference()) is not None and wrapper.require_backward_grad_sync for reference in _ddp)
                recorder.span(wire.BACKWARD, _BACKWARD, begin, end, frame(1), wire.SYNCS if syncs else 0)
                # Gloo's reducer waits for the other ranks at the end of backward, on this thread.
                if syncs and _last_gradient and not device.in_use():
                    recorder.span(wire.COLLECTIVE, _WAIT_FOR_GRADIENTS, _last_gradient, end, frame(1), wire.SYNCS)
            return result

        return backward

    patches.replace(module, "backward", make)


def hook_optimizer(module):
    """module: torch.optim.optimizer."""
    _handles.append(module.register_optimizer_step_pre_hook(_before_optimizer))
    _handles.append(module.register_optimizer_step_post_hook(_after_optimizer))


def _before_optimizer(optimizer, args, kwargs):
    global _optimizer_began
    _optimizer_began = recorder.now()


def _after_optimizer(optimizer, args, kwargs):
    if not recorder.active():
        return
    try:
        _end_step(optimizer, sys._getframe(1))
    except Exception as error:
        recorder.give_up(error, "the end of a step")


def _end_step(optimizer, frame):
    global _boundary, _steps, _forwards_since
    marks = _boundary() if _boundary is not None else None
    if marks is None:
        recorder.follow_this_thread()
        marks = optimizer
        _boundary = weakref.ref(optimizer)
    if marks is not optimizer:
        recorder.span(wire.OPTIMIZER, _name_of(optimizer), _optimizer_began, recorder.now(), frame)
        return
    recorder.span(wire.OPTIMIZER, _name_of(optimizer), _optimizer_began, recorder.now(), frame, wire.STEP_END)
    _steps += 1
    device.end_of_step(_steps)
    if _steps == 1:
        _describe(optimizer)
        _look_for_modules()
        places.set_loop(frame)
        sampler.start()
    elif _forwards_since == 0 and _steps in (3, 10, 30):
        _look_for_modules()  # the model that is trained was made later, or is called by its parts
    if _steps in (2, 5, 12, 50) or _steps % 200 == 0:
        _describe_ddp()
    _forwards_since = 0


_names = {}


def _name_of(optimizer):
    kind = type(optimizer)
    name = _names.get(kind)
    if name is None:
        name = _names[kind] = f"{kind.__name__}.step"[:32].encode("ascii", "replace")
    return name


def _describe(optimizer):
    import torch

    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    parameters = group.get("params") or [None]
    recorder.fact("optimizer", kind=type(optimizer).__name__, fused=int(bool(group.get("fused"))), foreach=group.get("foreach"),
                  can_fuse=int("fused" in group), device=parameters[0].device.type if parameters[0] is not None else None,
                  tensors=sum(len(each.get("params", ())) for each in optimizer.param_groups))
    recorder.fact("seed", torch=torch.initial_seed())


# --- the models -------------------------------------------------------------------------------------------------------


def _look_for_modules():
    """Finds the outermost models and hooks them; where they are not called as such, the parts they are made of."""
    global _rescans
    from torch.nn import Module

    _rescans += 1
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), Module)]
    inner = {id(child) for module in modules for child in module._modules.values() if child is not None}
    outermost = [module for module in modules if id(module) not in inner]
    for _ in range(_rescans - 1):  # nobody called those: one level down
        outermost = [child for module in outermost for child in module._modules.values() if child is not None] or outermost
    trained = [module for module in outermost if any(True for _ in module.parameters())]
    for module in trained[:_MOST_MODULES]:
        _hook_module(module)
    for module in modules:
        if hasattr(module, "require_backward_grad_sync") and hasattr(module, "_get_ddp_logging_data"):
            _hook_ddp(module)


def _hook_module(module):
    """By its class's __call__: hooks of the module itself would be pickled with it, and take torch's slower way through a call."""
    if id(module) in _targets:
        return
    learns = any(parameter.requires_grad for parameter in module.parameters())
    _targets[id(module)] = (weakref.ref(module), id(module) & 0xFFFFFFFF if learns else 0)
    patches.replace(type(module), "__call__", _timed_call)


def _timed_call(original):
    targets, now, frame = _targets, recorder.now, sys._getframe

    def __call__(self, *args, **kwargs):
        known = targets.get(id(self))
        if known is None or known[0]() is not self:
            return original(self, *args, **kwargs)
        global _forwards_since
        _forwards_since += 1
        if device.pause_is_open():
            device.work_begins()
        begin = now()
        result = original(self, *args, **kwargs)
        end = now()
        flags = 0 if self.training and _torch().is_grad_enabled() else wire.NO_TRAINING
        recorder.span(wire.FORWARD, _FORWARD, begin, end, frame(1), flags, 0, known[1])
        return result

    return __call__


def _torch():
    return sys.modules["torch"]


def _hook_ddp(wrapper):
    """The gradients that are ready last end the backward pass: what follows is waiting for the other ranks."""
    if any(reference() is wrapper for reference in _ddp):
        return
    _ddp.append(weakref.ref(wrapper))
    parameters = [parameter for parameter in wrapper.module.parameters() if parameter.requires_grad]
    last = {0, 1}
    try:
        order = wrapper._get_ddp_logging_data().get("prev_iteration_grad_ready_order_indices", "")
        last.update(int(place) for place in order.split(",")[-2:])
    except (ValueError, RuntimeError):
        pass
    for place in last:
        if place < len(parameters) and hasattr(parameters[place], "register_post_accumulate_grad_hook"):
            _handles.append(parameters[place].register_post_accumulate_grad_hook(_gradient_ready))


def _gradient_ready(parameter):
    global _last_gradient
    _last_gradient = recorder.now()


_DDP_FACTS = {"backend_name": "backend", "world_size": "world", "find_unused_parameters": "find_unused", "unused_parameter_size": "unused_bytes",
              "bucket_cap_bytes": "bucket", "gradient_as_bucket_view": "view", "static_graph": "static", "total_parameter_size_bytes": "bytes",
              "avg_backward_comm_time": "comm_ns", "avg_backward_compute_comm_overlap_time": "overlap_ns",
              "avg_backward_compute_time": "compute_ns", "num_buckets_reduced": "buckets"}


def _describe_ddp():
    for reference in _ddp:
        wrapper = reference()
        if wrapper is None:
            continue
        data = wrapper._get_ddp_logging_data()
        recorder.fact("ddp", **{short: data[name] for name, short in _DDP_FACTS.items() if name in data})
        return


def unhook():
    for handle in _handles:
        try:
            handle.remove()
        except Exception:
            pass
    _handles.clear()
    _targets.clear()
