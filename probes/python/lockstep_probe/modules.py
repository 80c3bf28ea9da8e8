"""Forward and backward by module, in single steps that lie far apart.

Hooks that are torch's for all modules (nothing is left in a module, which may be copied or pickled meanwhile) note when a part
of the model begins and ends: by events in its GPU's queue, else by the clock. A part's backward pass lies between the
gradients of what it gave and of what it took. No hook changes anything.

Not where torch.compile is at work, which would compile anew for them, nor for a model on several devices: no one queue has its
parts.
"""

import re
import sys

from . import recorder

FIRST = 20  # the step behind which one is measured; from then on twice as far each time
MOST_STEPS = 8
_MOST_ROWS = 12
_WORTH_OPENING = 0.25  # of the model's parameters
_NEVER_CALLED = ("ModuleList", "ModuleDict")
_WRAPPERS = ("module", "_orig_mod", "_fsdp_wrapped_module")

measuring = False
_next = FIRST
_rows = None  # id of a module -> its row; None: not chosen yet, {}: this model has none
_all_rows = []
_device = None
_handles = []
_stack = []  # calls that have not returned
_calls = []  # of the step that is measured
_pass = None  # the backward pass that is under way
_open = None  # a call whose backward pass no gradient ends
_unread = []  # (calls, what says that all is over)
_steps_read = 0


class _Row:
    def __init__(self, name, kind, count):
        self.name, self.kind, self.count = name, kind, count
        self.forward_ns = []  # of each step that was measured
        self.backward_ns = []
        self.calls = 0


class _Call:
    __slots__ = ("row", "module", "begin", "end", "gave", "took", "has_end")

    def __init__(self, row, module):
        self.row, self.module = row, module
        self.begin = self.end = self.gave = self.took = None
        self.has_end = False


def end_of_step(steps, models, rests):
    """models: gives those that learn. rests: nothing else is measured in the steps to come. True:
    the next step is measured.
    """
    if _rows == {}:
        return False
    try:
        if measuring:
            _finish()
        _read()
        if steps >= _next and rests and not _unread:
            _begin(steps, models)
    except Exception as error:
        _give_up(error)
    return measuring


def unhook():
    """Nothing more is measured."""
    global measuring, _rows
    measuring, _rows = False, {}
    _remove_hooks()
    del _stack[:], _calls[:], _unread[:]


def after_fork():
    global _rows, _next, _steps_read
    unhook()
    _rows, _next, _steps_read = None, FIRST, 0


def backward_begins():
    """Called while `measuring`, on the thread that trains."""
    global _pass
    try:
        if _pass is None and _counts():
            _pass = _Call(_all_rows[0], None)
            _pass.gave = _mark()
    except Exception as error:
        _give_up(error)


def backward_ended():
    global _pass, _open
    try:
        if _pass is not None:
            _pass.took = _mark()
            _calls.append(_pass)
            if _open is not None:
                _open.took = _pass.took
        _pass = _open = None
    except Exception as error:
        _give_up(error)


def _begin(steps, models):
    global measuring, _next
    torch = sys.modules["torch"]
    if _is_capturing(torch) or (_rows is None and not _choose(torch, models())):
        return
    if _compiles() or _steps_read >= MOST_STEPS:
        unhook()
        return
    _next = 2 * steps
    _hook(torch)
    measuring = True


# --- which parts
# --------------------------------------------------------------------------------------------------


def _choose(torch, models):
    """The rows for the largest model. False: it has none."""
    global _rows, _all_rows, _device
    _rows = {}
    models = [(sum(each.numel() for each in model.parameters()), model) for model in models]
    if not models or not hasattr(torch._C, "_current_graph_task_id"):
        return False
    model = max(models, key=lambda entry: entry[0])[1]
    devices = {each.device for each in model.parameters()}
    whole = model
    while inner := next(
        (model._modules[name] for name in _WRAPPERS if model._modules.get(name) is not None), None
    ):
        if type(model).__name__ == "OptimizedModule":
            return False
        model = inner
    on_gpu = torch.cuda.is_initialized()
    if len(devices) != 1 or next(iter(devices)).type != ("cuda" if on_gpu else "cpu"):
        return False
    if any(getattr(each, "_compiled_call_impl", None) is not None for each in model.modules()):
        return False
    _device = next(iter(devices)) if on_gpu else None
    row = _Row("all", type(model).__name__, 1)
    _all_rows, chosen = [row], {id(whole): row}
    for (name, kind), modules in _parts(model).items():
        row = _Row(name, kind, len(modules))
        _all_rows.append(row)
        for module in modules:
            chosen[id(module)] = row
    if len(_all_rows) < 3:
        return False  # one part says no more than the whole
    _rows = chosen
    return True


def _parts(model):
    """Parts that do not hold each other: (name, class) -> the modules that are alike. The heaviest
    are opened while there is room.
    """
    parts = _opened("", [model])
    weights = {key: _weight(modules) for key, modules in parts.items()}
    whole = max(1, sum(weights.values()))
    while True:
        for key in sorted(parts, key=lambda key: -weights[key]):
            never_called = key[1] in _NEVER_CALLED
            inner = _opened(key[0] + ".", parts[key])
            has_parts = any(_opened("", modules) for modules in inner.values())
            heavy = weights[key] >= _WORTH_OPENING * whole
            room = len(parts) - 1 + len(inner) <= _MOST_ROWS
            if inner and (never_called or (has_parts and heavy and room)):
                weights.update((name, _weight(modules)) for name, modules in inner.items())
                parts = {
                    name: modules
                    for each in parts
                    for name, modules in (inner if each == key else {each: parts[each]}).items()
                }
                break
        else:
            return parts


def _opened(prefix, modules):
    found = {}
    for module in modules:
        for name, child in module._modules.items():
            if child is not None:
                key = (prefix + re.sub(r"\d+", "*", name), type(child).__name__)
                found.setdefault(key, []).append(child)
    return found


def _weight(modules):
    return sum(each.numel() for module in modules for each in module.parameters())


def _compiles():
    """torch.compile is at work somewhere: hooks would make it start again."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))


# --- when
# --------------------------------------------------------------------------------------------------


def _is_capturing(torch):
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _hook(torch):
    module = torch.nn.modules.module
    _handles.append(module.register_module_forward_pre_hook(_before))
    try:
        _handles.append(module.register_module_forward_hook(_after, with_kwargs=True))
    except TypeError:  # of an older torch
        _handles.append(
            module.register_module_forward_hook(
                lambda module, inputs, output: _after(module, inputs, {}, output)
            )
        )


def _remove_hooks():
    while _handles:
        _handles.pop().remove()


def _counts():
    torch = sys.modules["torch"]
    return (
        torch.is_grad_enabled()
        and recorder.on_training_thread()
        and torch._C._current_graph_task_id() == -1  # else computed once more, for its gradients
        and not _is_capturing(torch)
    )


def _mark():
    if _device is None:
        return recorder.now()
    cuda = sys.modules["torch"].cuda
    event = cuda.Event(enable_timing=True)
    event.record(cuda.current_stream(_device))
    return event


def _before(module, inputs):
    row = _rows.get(id(module))
    if row is None or not measuring:
        return
    try:
        if module.training and _counts():
            call = _Call(row, id(module))
            call.begin = _mark()
            _stack.append(call)
    except Exception as error:
        _give_up(error)


def _after(module, inputs, named, output):
    if id(module) not in _rows or not measuring:
        return
    try:
        while _stack:
            call = _stack.pop()  # those above it were left by an exception
            if call.module == id(module):
                call.end = _mark()
                _calls.append(call)
                if call.row is not _all_rows[0]:
                    _follow_gradients(call, (inputs, named), output)
                return
    except Exception as error:
        _give_up(error)


def _follow_gradients(call, inputs, output):
    gave, took = _with_gradient(output), _with_gradient(inputs)
    if gave is None:
        return
    gave.register_hook(lambda gradient: _backward_comes(call))
    if took is not None and took is not gave:
        call.has_end = True
        took.register_hook(lambda gradient: _backward_goes(call))


def _with_gradient(thing):
    """The first tensor in it that a gradient comes to in a backward pass."""
    if isinstance(thing, sys.modules["torch"].Tensor):
        return thing if thing.grad_fn is not None else None
    if isinstance(thing, dict):
        thing = thing.values()
    elif not isinstance(thing, (tuple, list)):
        return None
    return next((found for each in thing if (found := _with_gradient(each)) is not None), None)


def _backward_comes(call):
    global _open
    if _pass is None or call.gave is not None:
        return
    try:
        call.gave = _mark()
        if _open is not None:
            _open.took = call.gave
        _open = None if call.has_end else call
    except Exception as error:
        _give_up(error)


def _backward_goes(call):
    if _pass is None or call.gave is None or call.took is not None:
        return
    try:
        call.took = _mark()
    except Exception as error:
        _give_up(error)


# --- what came of it
# --------------------------------------------------------------------------------------------------


def _finish():
    global measuring, _calls, _pass, _open
    measuring, _pass, _open = False, None, None
    _remove_hooks()
    del _stack[:]
    if _calls:
        _unread.append((_calls, _mark()))
    _calls = []


def _read():
    global _steps_read
    while _unread and (_device is None or _unread[0][1].query()):
        calls, _ = _unread.pop(0)
        for row in _all_rows:
            row.forward_ns.append(0)
            row.backward_ns.append(0)
        for call in calls:
            call.row.calls += 1
            call.row.forward_ns[-1] += _between(call.begin, call.end)
            call.row.backward_ns[-1] += _between(call.gave, call.took)
        _steps_read += 1
        for number, row in enumerate(_all_rows):
            if row.calls:
                recorder.fact(
                    "module",
                    id=number,
                    name=row.name[-100:],
                    kind=row.kind[:40],
                    count=row.count,
                    forward_us=round(_median(row.forward_ns) / 1e3, 1),
                    backward_us=round(_median(row.backward_ns) / 1e3, 1),
                    steps=_steps_read,
                    gpu=int(_device is not None),
                )


def _median(values):
    """One step in which a rank waits for another's save says nothing of a layer."""
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _between(begin, end):
    if begin is None or end is None:
        return 0
    return end - begin if _device is None else begin.elapsed_time(end) * 1e6


def _give_up(error):
    unhook()
    recorder.fact("modules_failed", why=f"{type(error).__name__}: {error}")
