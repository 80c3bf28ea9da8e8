"""A thread beside the training: writes what hooks have queued, and looks at the training thread now and then (a hundred times a
second at first), for what no hook knows still has a line in the source."""

import os
import re
import sys
import threading
import time

from . import device, places, recorder

_PERIOD_S = 0.01
_LATER_PERIOD_S = 0.2
_LONGEST_PERIOD_S = 0.5
# Of the time, that looks may take later on: they have the interpreter meanwhile, and the program
# waits.
_SHARE = 0.002
_LOOKS_AT_FIRST = 500
# many at a time: the first record of a batch costs ten times what the next ones do
_WRITE_EVERY_S = 0.1
_MEMORY_EVERY_S = 1.0
_MOST_FUNCTIONS = 4
_TELLING = re.compile("save|checkpoint|log|eval|valid|fetch|collate|tokeniz|transform|clip|report")
_thread = None
_looks = 0
_QUICK_SWITCH_S = 5e-5
_usual_switch_s = sys.getswitchinterval()
_phase = 0.0


def start():
    global _thread
    if _thread is None:
        _thread = threading.Thread(target=_run, name="lockstep-probe", daemon=True)
        _thread.start()
        recorder.writer_runs()


def thread():
    return _thread


def finish():
    """Before the interpreter goes: a thread that wakes up in the middle of that can take the
    program down.
    """
    if _thread is not None and recorder.active():
        _processor_fact()  # a run of some seconds has no other from its end
    recorder.stop()
    if _thread is not None:
        _thread.join(1.0)
    if not recorder.is_worker():
        _write_the_rest()


def after_fork():
    global _thread
    if _thread is not None:
        _switch_as_usual()
    _thread = None  # threads do not survive a fork


def _run():
    from . import stop

    stop_file = os.path.join(os.environ.get("LOCKSTEP_PROBE_FOLDER", ""), "stop")
    last = recorder.now()
    look_s = 0.0
    looked_ns = last
    wrote_ns = last
    samples = os.environ.get("LOCKSTEP_PROBE_SAMPLES") != "0"
    _processor_fact()
    while recorder.active():
        period = _PERIOD_S
        if _looks >= _LOOKS_AT_FIRST:
            period = min(max(_LATER_PERIOD_S, look_s / _SHARE), _LONGEST_PERIOD_S)
        (_sleep if samples else time.sleep)(period)
        now = recorder.now()
        try:
            if samples:
                began_s = time.thread_time()
                _look(now, now - last)
                look_s = time.thread_time() - began_s
            if now - wrote_ns > _WRITE_EVERY_S * 1e9:
                wrote_ns = now
                while not recorder.write_queued(recorder._AT_ONCE):
                    time.sleep(0)
            if now - looked_ns > _MEMORY_EVERY_S * 1e9:
                looked_ns = now
                device.memory_fact()
                _processor_fact()
                recorder.tell_lost()
                if os.path.isabs(stop_file) and os.path.exists(stop_file):
                    stop()
        except Exception as error:
            recorder.give_up(error, "sampling")
        last = now
    _write_the_rest()


def _sleep(seconds):
    """Ends where the training thread is then to be looked at.

    A thread gets the interpreter when another lets go of it: in the next call of torch, or after 5
    ms. Code that is shorter would never be seen, and the call behind it in its place. So the last
    of the sleep, as long as a switch may take and each time another length, ends in 50 us.
    """
    global _usual_switch_s, _phase
    _usual_switch_s = sys.getswitchinterval()
    time.sleep(seconds)
    _phase = (_phase + 0.618) % 1  # the program's own random numbers are its own
    sys.setswitchinterval(_QUICK_SWITCH_S)
    try:
        time.sleep(_phase * _usual_switch_s)
    finally:
        _switch_as_usual()


def _processor_fact():
    """How long the training thread ran, and how long it could have and had no core."""
    for thread in threading.enumerate():
        if thread.ident == recorder.training_thread():
            try:
                with open(
                    f"/proc/self/task/{thread.native_id}/schedstat", encoding="ascii"
                ) as file:
                    ran, waited = file.read().split()[:2]
            except (OSError, ValueError):
                return
            recorder.fact("processor", ran_ns=ran, waited_ns=waited)


def _switch_as_usual():
    if sys.getswitchinterval() == _QUICK_SWITCH_S:
        sys.setswitchinterval(_usual_switch_s)


def _write_the_rest():
    try:
        recorder.write_queued()
    except Exception as error:
        recorder.give_up(error, "writing")


def _look(now, since):
    global _looks
    _looks += 1
    frame = sys._current_frames().get(recorder.training_thread())
    place = places.users_frame(frame)
    if place is None:
        return
    functions = []
    loop = recorder.loop_code()
    while frame is not place and places.is_own(frame.f_code.co_filename):
        frame = frame.f_back  # a hook's own time is its caller's
    innermost = frame.f_code
    if innermost is not place.f_code:
        functions.append(f"{_package(innermost.co_filename)}:{innermost.co_name}")
        functions.extend(_telling_functions(frame.f_back, place))
    below = place
    while below is not None and below.f_code is not loop and len(functions) < _MOST_FUNCTIONS:
        if places.is_users(below.f_code.co_filename):
            functions.append(below.f_code.co_name)
        below = below.f_back
    if below is None:
        functions = []  # outside the loop: its own functions say nothing of a step
    recorder.write_sample(
        now,
        since,
        places.line_at(place.f_code, place.f_lasti),
        places.loop_line(place, loop),
        "<".join(functions).encode("ascii", "replace")[:72],
        place.f_code.co_filename,
    )


def _telling_functions(frame, place):
    """Of a library's functions between the innermost and the user's, those whose names say what
    they are for.
    """
    found = []
    while frame is not None and frame is not place and len(found) < 2:
        name = frame.f_code.co_name
        if _TELLING.search(name) and places.is_installed(frame.f_code.co_filename):
            word = f"{_package(frame.f_code.co_filename)}:{name}"
            if word not in found:  # Lightning's loggers save by three functions of one name
                found.append(word)
        frame = frame.f_back
    return found


def _package(name):
    """`wandb` of .../site-packages/wandb/sdk/run.py, `logging` of
    .../lib/python3.11/logging/__init__.py, `os` of <frozen os>.
    """
    if name.startswith("<frozen "):
        return name[8:-1].split(".")[0]
    parts = name.split("/")
    for marker in ("site-packages", "dist-packages"):
        if marker in parts[:-1]:
            at = parts.index(marker) + 1
            is_optimizer = parts[at : at + 2] == ["torch", "optim"]
            return "torch.optim" if is_optimizer else parts[at].split(".")[0]
    folder = parts[-2] if len(parts) > 1 else ""
    return parts[-1].split(".")[0] if folder.startswith("python") else folder
