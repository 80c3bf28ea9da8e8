#!/usr/bin/env python3
"""When the CUDA probe is on: for a few steps at a time, as rarely as what it costs demands."""

import importlib
import os
import random
import sys
import types
import unittest

PROBE = os.path.join(os.environ["LOCKSTEP_SOURCE_DIR"], "probes/python/lockstep_probe")
STEP_NS = 20_000_000


def a_probe():
    """The module as a process has it, without torch: its package would look for it."""
    package = types.ModuleType("lockstep_probe")
    package.__path__ = [PROBE]
    recorder = types.ModuleType("lockstep_probe.recorder")
    recorder.fact = lambda name, **values: None
    sys.modules.update({"lockstep_probe": package, "lockstep_probe.recorder": recorder})
    sys.modules.pop("lockstep_probe.windows", None)
    return importlib.import_module("lockstep_probe.windows")


def train(cost, steps, noise=0.0, seed=1, leaves_ns=1, captures=(), comes_ns=0):
    """How much slower the whole run is, and the steps behind which the probe was switched on.

    leaves_ns: what it takes CUPTI to leave the process, 0 where it stays; comes_ns: to come;
    captures: steps at which nobody may wait for the GPU.
    """
    windows, dice = a_probe(), random.Random(seed)
    is_on, is_there, opened = [False], [False], []

    def switch(on):
        nonlocal now
        is_on[0] = bool(on)
        if on:
            opened.append(step)
            now += 0 if is_there[0] else comes_ns
            is_there[0] = True

    def detach(harmless, count):
        nonlocal now
        assert not is_on[0] and step not in captures
        now += leaves_ns
        is_there[0] = is_there[0] and leaves_ns == 0
        return leaves_ns

    def find():
        windows._switch, windows._detach = switch, detach
        windows._may_leave = lambda harmless, count: True
        windows._is_alone = lambda harmless, count: leaves_ns > 0
        return True

    windows._find = find
    windows._is_capturing = lambda: step in captures
    now = alone = 0
    windows.time = types.SimpleNamespace(monotonic_ns=lambda: int(now))
    attached = 0.2 if leaves_ns == 0 else 0
    for step in range(1, steps + 1):
        length = STEP_NS * (1 + noise * dice.random())
        alone += length
        now += length * (1 + cost * is_on[0] + attached * is_there[0])
        if step < 4 or step % 4 == 0:
            windows.end_of_step(step, int(now))
    return now / alone - 1, opened


class Windows(unittest.TestCase):
    def test_slow_the_whole_run_by_less_than_one_percent(self):
        for cost in (0.0, 0.02, 0.06, 0.15, 0.3, 0.6):
            slower, opened = train(cost, 5000)
            self.assertLess(slower, 0.01, cost)
            self.assertGreater(len(opened), 4, cost)

    def test_count_what_it_takes_to_leave_the_process(self):
        for leaves_ns in (2_000_000, 20_000_000):
            slower, opened = train(0.1, 5000, leaves_ns=leaves_ns)
            self.assertLess(slower, 0.01, leaves_ns)
            self.assertGreater(len(opened), 4, leaves_ns)

    def test_begin_behind_more_undisturbed_steps_where_cupti_will_stay(self):
        for comes_ns in (0, 400_000_000):
            _, opened = train(0.1, 5000, leaves_ns=0, comes_ns=comes_ns)
            self.assertEqual(opened[:2], [16, 48])
            self.assertGreater(len(opened), 4, "it came once: that is not a window's cost")

    def test_wait_until_no_graph_is_being_captured(self):
        slower, opened = train(0.1, 200, captures=range(7, 13))
        self.assertEqual(opened[:1], [16], "12 is the step behind 8, and captures, too")

    def test_are_not_misled_by_a_noisy_machine(self):
        for seed in range(8):
            slower, opened = train(0.06, 5000, noise=0.4, seed=seed)
            self.assertLess(slower, 0.01)
            self.assertGreater(len(opened), 4)

    def test_are_there_in_short_runs(self):
        for steps in (40, 60, 100):
            _, opened = train(0.06, steps)
            self.assertEqual(opened[0], 8)
        self.assertEqual(opened, [8, 32], "one of them behind the warm-up")

    def test_of_ranks_with_other_costs_fall_on_the_same_steps(self):
        _, often = train(0.02, 4000)
        _, seldom = train(0.3, 4000)
        self.assertLess(len(seldom), len(often) / 4)
        self.assertLessEqual(set(seldom), set(often))

    def test_are_none_where_every_step_is_asked_for_or_no_probe_is_there(self):
        for variables in (
            {
                "CUDA_INJECTION64_PATH": "/x/liblockstep_cuda_probe.so",
                "LOCKSTEP_CUDA_PROBE": "always",
            },
            {"CUDA_INJECTION64_PATH": "/another/tool.so"},
            {},
        ):
            windows = a_probe()
            kept = {
                name: os.environ.pop(name, None)
                for name in ("CUDA_INJECTION64_PATH", "LOCKSTEP_CUDA_PROBE")
            }
            os.environ.update(variables)
            for step in range(1, 200):
                windows.end_of_step(step, step * STEP_NS)
            self.assertIsNone(windows._switch)
            for name in variables:
                del os.environ[name]
            os.environ.update({name: value for name, value in kept.items() if value is not None})


if __name__ == "__main__":
    unittest.main()
