"""Forward, backward and optimizer: the parts of a step, and where one step ends and the next begins.

A step ends with the optimizer's. Of several optimizers the one that stepped first marks it. Where none is seen (its step is
compiled, or the update is the program's own), a step ends before the first forward pass behind an update: parameters count their
changes. The models are looked for once, at the end of the first step: those that no other module holds. Only these are timed, so
a model of a thousand layers costs no more than one of ten.
"""

import gc
import os
import sys
import weakref

from . import device, modules, patches, recorder, sampler, windows, wire

_MOST_MODULES = 16
_FORWARD = b"forward"
_BACKWARD = b"backward"
_WAIT_FOR_GRADIENTS = b"gradient all-reduce"

_now, _frame, _span, _in_loop = recorder.now, sys._getframe, recorder.span, recorder.in_loop
_OPTIMIZER, _STEP_END = wire.OPTIMIZER, wire.STEP_END
_is_compiling = bool  # False until torch is there
_boundary = None  # a weak reference to the optimizer that marks steps
_boundary_id = None
_boundary_site = None
_next_chore = 0  # the step after which something is due
_optimizer_began = 0
# a pass within the optimizer's step is its closure's: the step's own work comes after
_backward_ended = 0
_steps = 0
_handles = []
# id of an outermost model -> (where it learns, where it does not, what forgets it when it goes)
_targets = {}
_ddp = []  # weak references to DDP wrappers
_last_gradient = 0  # when the last hooked gradient was ready
_forwards_since = 0
_rescans = 0
_passes = 0  # backward passes while no optimizer marks steps
_watched = None  # a weak reference to a parameter, while no optimizer's step is seen
_version = None
_PASSES_WITHOUT_A_STEP = 4
_NOT_NOW = -(1 << 60)


def steps():
    return _steps


def hook_autograd(module):
    """module: torch.autograd. Tensor.backward calls it too."""

    def make(original):
        now, frame, span, in_loop = recorder.now, sys._getframe, recorder.span, recorder.in_loop
        alone = (wire.BACKWARD, _BACKWARD, 0, 0)
        is_compiling = patches.compiling_check()

        def backward(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            global _last_gradient, _backward_ended
            _last_gradient = 0
            if modules.measuring:
                modules.backward_begins()
            begin = now()
            result = original(*args, **kwargs)
            end = _backward_ended = now()
            if modules.measuring:
                modules.backward_ended()
            if _boundary_id is None and _watched is None:
                _pass_without_a_step()
            outer = frame(0).f_back
            caller = outer.f_back if outer is not None else None  # below Tensor.backward
            if not _ddp and caller is not None and caller.f_code is recorder.short_way:
                in_loop((alone, begin, end, caller.f_lasti))
            elif recorder.on_training_thread():
                flags = wire.SYNCS if _ddp and _will_sync() else 0
                span(wire.BACKWARD, _BACKWARD, begin, end, outer, flags)
                # Gloo's reducer waits for the other ranks at the end of backward, on this thread.
                if flags and _last_gradient and not device.in_use():
                    span(wire.COLLECTIVE, _WAIT_FOR_GRADIENTS, _last_gradient, end, outer, flags)
            return result

        return backward

    patches.replace(module, "backward", make)


def _pass_without_a_step():
    """Accumulation, or an update that no optimizer tells of."""
    global _passes, _watched, _version
    _passes += 1
    if _passes != _PASSES_WITHOUT_A_STEP or not recorder.active():
        return
    try:
        _look_for_modules()
        learns = next(
            parameter
            for _, _, module in list(_targets.values())
            for parameter in _parameters(module())
            if parameter.requires_grad and parameter.grad is not None
        )
        _watched, _version = weakref.ref(learns), learns._version
        recorder.follow_this_thread()
    except StopIteration:
        _passes = 0  # all gradients are taken at once: asked again later
    except Exception as error:
        recorder.give_up(error, "looking for updates")


def _end_unseen_step(caller):
    """Before a forward pass in training."""
    global _watched, _version, _steps
    parameter = _watched()
    if parameter is None:
        _watched = None
        return
    if parameter._version == _version or not recorder.on_training_thread():
        return
    _version = parameter._version
    now = _now()
    _span(_OPTIMIZER, b"an update", now, now, caller, _STEP_END)
    _steps += 1
    if _steps >= _next_chore:
        _do_chores(None, caller)


def _will_sync():
    return any(
        (wrapper := reference()) is not None and wrapper.require_backward_grad_sync
        for reference in _ddp
    )


def hook_optimizer(module):
    """module: torch.optim.optimizer."""
    global _is_compiling
    _is_compiling = patches.compiling_check()
    _handles.append(module.register_optimizer_step_pre_hook(_before_optimizer))
    _handles.append(module.register_optimizer_step_post_hook(_after_optimizer))


def _before_optimizer(optimizer, args, kwargs):
    if _is_compiling():
        return
    global _optimizer_began, _watched, _passes
    _optimizer_began = _now()
    if _boundary_id is None:  # what it changes in passes of its own is one step
        _watched, _passes = None, _NOT_NOW


def _after_optimizer(optimizer, args, kwargs):
    if _is_compiling():
        return
    global _steps, _optimizer_began, _watched, _passes
    end = _now()
    if _backward_ended > _optimizer_began:
        _optimizer_began = _backward_ended
    if id(optimizer) != _boundary_id:
        if recorder.active():
            _watched, _passes = None, 0  # this one tells of its steps
            _another_optimizer(optimizer, end, _frame(1))
        return
    try:
        caller = _frame(2)  # below the optimizer's own wrapper
    except ValueError:
        return
    if caller.f_code is recorder.short_way:
        recorder.hand_over_reads()
        _in_loop((_boundary_site, _optimizer_began, end, caller.f_lasti))
    else:
        _span(_OPTIMIZER, _boundary_site[1], _optimizer_began, end, caller, _STEP_END)
    _steps += 1
    if _steps >= _next_chore:
        _do_chores(optimizer, _frame(1))


def _another_optimizer(optimizer, end, frame):
    """The first of all marks steps, and another where that one is gone."""
    global _boundary, _boundary_id, _boundary_site
    name = f"{type(optimizer).__name__}.step"[:32].encode("ascii", "replace")
    if _boundary is not None and _boundary() is not None:
        _span(_OPTIMIZER, name, _optimizer_began, end, frame)
        return
    recorder.follow_this_thread()
    _boundary, _boundary_id, _boundary_site = (
        weakref.ref(optimizer, _boundary_gone),
        id(optimizer),
        (_OPTIMIZER, name, _STEP_END, 0),
    )
    _after_optimizer(optimizer, None, None)


def _boundary_gone(reference):
    global _boundary_id
    _boundary_id = None  # the next one may lie where it lay


def _do_chores(optimizer, frame):
    """What is not due every step."""
    global _next_chore, _forwards_since, _rescans
    measured = False
    if not recorder.active():
        try:
            is_out = windows.leave()
        except Exception:
            is_out = True  # it stays; the program goes on
        if is_out:
            _remove_hooks()
        return
    try:
        device.end_of_step(_steps)
        windows.end_of_step(_steps, _now())
        if _steps == 1:
            if optimizer is not None:
                _describe_parameters(optimizer)
            _describe_program()
            _look_for_modules()
            recorder.set_loop(frame)
            sampler.start()
        elif _forwards_since == 0 and _steps in (4, 12, 32):
            # the model that is trained was made later, or is called by its parts
            _rescans += 1
            _look_for_modules()
        if _steps in (2, 4, 12, 48) or _steps % 200 == 0:
            _describe_ddp()
        _forwards_since = 0
        measured = modules.end_of_step(_steps, _learning_models, windows.rest(_steps))
    except Exception as error:
        recorder.give_up(error, "the end of a step")
    _next_chore = _steps + 1 if _steps < 4 or measured else _steps - _steps % 4 + 4


def _learning_models():
    return [
        model
        for in_training, _, reference in list(_targets.values())
        if in_training is not None and (model := reference()) is not None
    ]


def _describe_parameters(optimizer):
    import torch

    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    parameters = group.get("params") or [None]
    recorder.fact(
        "optimizer",
        kind=type(optimizer).__name__,
        fused=int(bool(group.get("fused"))),
        foreach=group.get("foreach"),
        can_fuse=int("fused" in group),
        device=parameters[0].device.type if parameters[0] is not None else None,
        tensors=sum(len(each.get("params", ())) for each in optimizer.param_groups),
    )


def _describe_program():
    recorder.fact("seed", torch=sys.modules["torch"].initial_seed())
    recorder.fact(
        "program",
        framework=next((name for name, module in _FRAMEWORKS if module in sys.modules), "none"),
        cores=_cores_a_rank(),
        threads=sys.modules["torch"].get_num_threads(),
    )


# Whose loop it is, by the module that has it; the first that is loaded.
_FRAMEWORKS = (
    ("lightning", "lightning.pytorch.trainer.trainer"),
    ("lightning", "pytorch_lightning.trainer.trainer"),
    ("transformers", "transformers.trainer"),
)


def _cores_a_rank():
    own, all_cores = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    if own < all_cores:
        return own  # it was given these
    try:
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    except ValueError:
        ranks = 1
    return round(own / max(1, ranks), 2)


# --- the models -----------------------------------------------------------------------------------
# --------------------


def _look_for_modules():
    """Finds the outermost models and hooks them; where they are not called as such, the parts they
    are made of.
    """
    from torch.nn import Module

    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), Module)]
    inner = {id(child) for module in modules for child in _children(module)}
    outermost = [module for module in modules if id(module) not in inner]
    for _ in range(_rescans):  # nobody called those: one level down
        outermost = [child for module in outermost for child in _children(module)] or outermost
    hooked = 0
    for module in outermost:
        if hooked < _MOST_MODULES and any(True for _ in _parameters(module)):
            _hook_module(module)
            hooked += 1
    for module in modules:
        if "DistributedDataParallel" in {cls.__name__ for cls in type(module).__mro__} and hasattr(
            module, "_get_ddp_logging_data"
        ):
            _hook_ddp(module)


def _children(module):
    """Of a module that was never set up (no super().__init__()), or scripted, there may be none to
    be had.
    """
    try:
        return [child for _, child in module._modules.items() if child is not None]
    except Exception:
        return []


def _parameters(module):
    try:
        return list(module.parameters())
    except Exception:
        return []


def _hook_module(module):
    """By its class's __call__: hooks of the module itself would be pickled with it, and take
    torch's slower way through a call.
    """
    learns = any(parameter.requires_grad for parameter in _parameters(module))
    number = id(module) & 0xFFFFFFFF if learns else 0
    _hook_calls(module, number, (wire.FORWARD, _FORWARD, 0, number))
    while (
        module := _wrapped(module)
    ) is not None:  # often evaluated by itself; in training the wrapper's call is the pass
        _hook_calls(module, number, None)


def _wrapped(module):
    """What DDP or compile are around."""
    try:
        names = dict(module._modules.items())  # a scripted module's have no get
    except Exception:
        return None
    return next(
        (inner for name in ("module", "_orig_mod") if (inner := names.get(name)) is not None), None
    )


def _hook_calls(module, number, in_training):
    key = id(module)
    if key in _targets and in_training is None:
        return
    _targets[key] = (
        in_training,
        (wire.FORWARD, _FORWARD, wire.NO_TRAINING, number),
        weakref.ref(module, lambda gone: _targets.pop(key, None)),
    )
    patches.replace(type(module), "__call__", _timed_call)


def _timed_call(original):
    targets, now, frame, span, in_loop = (
        _targets,
        recorder.now,
        sys._getframe,
        recorder.span,
        recorder.in_loop,
    )
    torch = sys.modules["torch"]
    is_grad_enabled, is_compiling, base = (
        torch.is_grad_enabled,
        patches.compiling_check(),
        torch.nn.Module,
    )
    if original is base.__call__:
        # Found anew at each call: others replace it for a while (torch.fx while it traces).
        def original(self, *args, **kwargs):
            return base.__call__(self, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        if is_compiling():
            return original(self, *args, **kwargs)
        known = targets.get(id(self))
        if known is None or (known[0] is None and self.training and is_grad_enabled()):
            return original(self, *args, **kwargs)
        global _forwards_since
        _forwards_since += 1
        if _watched is not None and known[0] is not None and self.training and is_grad_enabled():
            _end_unseen_step(frame(1))
        if device._open is not None:
            _begin_work()
        begin = now()
        result = original(self, *args, **kwargs)
        end = now()
        site = (
            known[0] if known[0] is not None and is_grad_enabled() and self.training else known[1]
        )
        try:
            caller = frame(1)
        except ValueError:  # called by no Python function
            return result
        if caller.f_code is recorder.short_way:
            in_loop((site, begin, end, caller.f_lasti))
        else:
            part, what, flags, number = site
            span(part, what, begin, end, caller, flags, 0, number)
        return result

    return __call__


def _begin_work():
    try:
        device.work_begins()
    except Exception as error:
        recorder.give_up(error, "an event on the GPU")


def _hook_ddp(wrapper):
    """The gradients that are ready last end the backward pass: what follows is waiting for the
    other ranks.
    """
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
        if place < len(parameters) and hasattr(
            parameters[place], "register_post_accumulate_grad_hook"
        ):
            _handles.append(parameters[place].register_post_accumulate_grad_hook(_gradient_ready))


def _gradient_ready(parameter):
    global _last_gradient
    _last_gradient = recorder.now()


_DDP_FACTS = {
    "backend_name": "backend",
    "world_size": "world",
    "find_unused_parameters": "find_unused",
    "unused_parameter_size": "unused_bytes",
    "bucket_cap_bytes": "bucket",
    "gradient_as_bucket_view": "view",
    "static_graph": "static",
    "total_parameter_size_bytes": "bytes",
    "avg_backward_comm_time": "comm_ns",
    "avg_backward_compute_comm_overlap_time": "overlap_ns",
    "avg_backward_compute_time": "compute_ns",
    "num_buckets_reduced": "buckets",
}


def _describe_ddp():
    for reference in _ddp:
        wrapper = reference()
        if wrapper is None:
            continue
        data = wrapper._get_ddp_logging_data()
        recorder.fact(
            "ddp", **{short: data[name] for name, short in _DDP_FACTS.items() if name in data}
        )
        return


def after_fork():
    """A child that trains on its own begins anew: its models and loaders are copies, and it has no
    thread yet.
    """
    global _boundary, _boundary_id, _steps, _next_chore, _rescans, _passes, _watched
    _boundary = _boundary_id = _watched = None
    _steps = _next_chore = _rescans = _passes = 0
    modules.after_fork()


def unhook():
    """Called beside the training thread, which alone may have CUPTI leave: at its next step."""
    global _next_chore
    modules.unhook()
    if windows.in_use():
        _next_chore = 0
    else:
        _remove_hooks()
    _targets.clear()


def _remove_hooks():
    for handle in _handles:
        try:
            handle.remove()
        except Exception:
            pass
    _handles.clear()
