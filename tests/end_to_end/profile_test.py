"""Real torch, real DDP over Gloo, one cause of lost time put in on purpose: the profile names it,
its rank, its line and its share.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import second_try  # noqa: E402  (lies beside the tests)

BINARY = os.environ["LOCKSTEP_BINARY"]
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")
PYTHON = os.path.join(TORCH, "python")
SCRIPT = os.path.join(
    os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes", "training_with_a_cause.py"
)
EPOCHS = os.path.join(
    os.environ["LOCKSTEP_SOURCE_DIR"], "tests", "probes", "epochs_with_a_fault.py"
)

if not os.path.exists(PYTHON):
    print(f"skipped: no torch in {TORCH}; scripts/setup --tests makes it")
    sys.exit(77)

LINES = {}
for path in (SCRIPT, EPOCHS):
    with open(path, encoding="utf-8") as source:
        for number, text in enumerate(source, 1):
            alone = len(text) - len(text.lstrip())
            if mark := re.search(r"# (?:CAUSE|FAULT): (\w+)", text):
                # alone on its line it marks the next one
                LINES[os.path.basename(path), mark.group(1)] = number + (mark.start() == alone)


def line_of(name, script=SCRIPT):
    return LINES[os.path.basename(script), name]


class Profiled:
    """A run of the script under `lockstep profile --json`, with what it measured itself."""

    def __init__(self, folder, cause, *flags, steps=150):
        truth = os.path.join(folder, f"{cause}.json")
        environment = dict(os.environ, PATH=TORCH + ":" + os.environ["PATH"], OMP_NUM_THREADS="1")
        self.run = self.once(folder, cause, flags, steps, truth, environment)
        if self.run.returncode not in (0, 1):
            raise AssertionError(f"exit {self.run.returncode}\n{self.run.stderr[-3000:]}")
        self.report = json.loads(self.run.stdout)
        with open(truth, encoding="utf-8") as file:
            self.shares = [rank["seconds"] / rank["wall"] for rank in json.load(file)["ranks"]]

    @staticmethod
    def once(folder, cause, flags, steps, truth, environment):
        return subprocess.run(
            [
                BINARY,
                "profile",
                "--json",
                *flags,
                "--",
                "torchrun",
                "--standalone",
                "--nproc_per_node=2",
                SCRIPT,
                cause,
                "--steps",
                str(steps),
                "--truth",
                truth,
            ],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=200,
        )

    def finding(self, code):
        return next(
            (finding for finding in self.report["findings"] if finding["code"] == code), None
        )

    def lines(self, code):
        finding = self.finding(code)
        return [place["line"] for place in finding["where"]] if finding else []

    def cost(self, code):
        finding = self.finding(code)
        return finding["lost_throughput"] if finding else 0

    def part(self, name):
        return next(part for part in self.report["steps"]["parts"] if part["name"] == name)


class ProfileOfACause(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_with(self, cause, *flags, steps=150):
        return Profiled(self.folder.name, cause, *flags, steps=steps)

    def assert_share(self, measured, true):
        self.assertAlmostEqual(measured, true, delta=0.15 * true + 0.01)

    def test_a_healthy_run_is_silent_and_its_parts_make_up_the_whole_time(self):
        run = self.run_with("nothing")
        self.assertEqual(run.run.returncode, 0, run.report["findings"])
        self.assertEqual(run.report["findings"], [])
        whole = sum(
            part["share"]
            for part in run.report["steps"]["parts"]
            if part["name"] != "collective_hidden"
        )
        self.assertAlmostEqual(whole, 1, delta=0.002)
        self.assertEqual(len(run.report["steps"]["ranks"]), 2)

    def test_logging_in_each_step_is_named_with_its_line_and_share(self):
        run = self.run_with("log_inside")
        self.assertIn(line_of("log_inside"), run.lines("S302"))
        self.assert_share(run.cost("S302"), max(run.shares))

    @second_try.whole_only
    def test_a_log_of_ones_own_is_named_though_no_hook_knows_it(self):
        run = self.run_with("log_outside")
        self.assertIn(line_of("log_outside"), run.lines("S302"))
        self.assert_share(run.cost("S302"), max(run.shares))

    def test_a_wait_within_a_pass_is_the_programs_own_code(self):
        for cause in ("forward_waits", "hook_waits"):
            run = self.run_with(cause, steps=80)
            self.assertIn(line_of(cause), run.lines("S307"), cause)
            self.assert_share(run.cost("S307"), max(run.shares))

    def test_what_runs_in_every_20th_step_is_told_so(self):
        run = self.run_with("every_20th", steps=200)
        self.assertIn(line_of("every_20th"), run.lines("S307"))
        self.assert_share(run.cost("S307"), max(run.shares))
        places = run.part("other")["where"]
        place = next(one for one in places if one["line"] == line_of("every_20th"))
        self.assertAlmostEqual(place["present"], 0.05, delta=0.02)
        self.assertAlmostEqual(place["step_p50_ms"], 100, delta=15)

    @second_try.whole_only
    def test_checkpoints_of_one_rank_are_its_own(self):
        run = self.run_with("checkpoint")
        self.assertIsNotNone(run.finding("S303"))
        self.assertEqual(run.finding("S303")["ranks"], [0])
        self.assertIn(line_of("checkpoint"), run.lines("S303"))
        self.assertGreater(run.cost("S303"), 0.5 * run.shares[0])

    def test_a_rank_that_is_late_before_its_pass_or_within_it_is_named(self):
        for cause in ("slow_rank_before", "slow_rank_between"):
            run = self.run_with(cause, steps=80)
            self.assertIsNotNone(run.finding("C401"), cause)
            self.assertEqual(run.finding("C401")["ranks"], [1])
            self.assertIn(line_of(cause), run.lines("C401"))
            self.assert_share(run.finding("C401")["lost_throughput"], run.shares[1])

    @second_try.whole_only
    def test_gradients_synced_in_each_pass_are_told_from_no_sync(self):
        self.assertIsNotNone(self.run_with("no_sync_missing", steps=60).finding("C403"))
        self.assertIsNone(self.run_with("no_sync_used", steps=60).finding("C403"))

    @second_try.whole_only
    def test_the_collector_is_named(self):
        run = self.run_with("gc")
        self.assert_share(run.cost("S306"), max(run.shares))

    @second_try.whole_only
    def test_a_slow_dataset_is_named_where_it_is_waited_for(self):
        run = self.run_with("slow_dataset")
        self.assertIn(line_of("slow_dataset"), run.lines("D201"))

    @second_try.whole_only
    def test_a_value_read_in_each_step_is_no_finding_where_there_is_no_gpu(self):
        run = self.run_with("item")
        told = run.report["suspicions"] + run.report["findings"]
        self.assertNotIn("S301", [finding["code"] for finding in told])

    @second_try.whole_only
    def test_measuring_ends_after_the_steps_asked_for_and_the_command_goes_on(self):
        run = self.run_with(
            "nothing",
            "--steps",
            "40",
            "--trace",
            os.path.join(self.folder.name, "trace.json"),
            steps=400,
        )
        self.assertLess(run.report["steps"]["count"], 300)
        self.assertIn("the command goes on", run.run.stderr)
        with open(os.path.join(self.folder.name, "trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})


class ProfileOfOneProcess(unittest.TestCase):
    """On a machine that does nothing else: what is looked at is milliseconds long."""

    def profile(self, *words, code):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "a.py"), "w", encoding="utf-8") as file:
                file.write(code)
            return subprocess.run(
                [BINARY, "profile", "--json", "--", *words, PYTHON, "a.py"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=100,
            )

    def test_code_shorter_than_a_switch_of_threads_is_named_by_its_own_line(self):
        """A thread gets the interpreter from another after 5 ms, or when that enters torch."""
        code = (
            "import time\nimport torch\n\nm = torch.nn.Linear(256, 256)\n"
            "o = torch.optim.SGD(m.parameters(), 0.1)\n\n\n"
            "def score():\n    until = time.monotonic() + 0.003\n"
            "    while time.monotonic() < until:\n        sum(range(100))\n\n\n"
            "def main():\n    for i in range(300):\n"
            "        loss = m(torch.ones(64, 256)).sum()\n        loss.backward()\n"
            "        o.step()\n        o.zero_grad()\n        score()\n\n\nmain()\n"
        )
        run = self.profile(code=code)
        findings = {one["code"]: one for one in json.loads(run.stdout)["findings"]}
        self.assertIn("S307", findings, run.stdout)
        lines = [where["line"] for where in findings["S307"]["where"]]
        self.assertIn(lines[0], (10, 11), lines)
        self.assertIn(20, lines, "the line of the loop that leads there")

    def test_a_core_that_somebody_else_has_is_said(self):
        code = (
            "import torch\n\ntorch.set_num_threads(1)\nm = torch.nn.Linear(512, 512)\n"
            "o = torch.optim.SGD(m.parameters(), 0.1)\n\n\ndef main():\n"
            "    for i in range(700):\n        m(torch.ones(64, 512)).sum().backward()\n"
            "        o.step()\n        o.zero_grad()\n\n\nmain()\n"
        )
        core = str(min(os.sched_getaffinity(0)))
        other = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
        try:
            run = self.profile("taskset", "-c", core, code=code)
        finally:
            other.kill()
            other.wait()
        findings = {one["code"]: one for one in json.loads(run.stdout)["findings"]}
        self.assertIn("X709", findings, run.stdout[:2000])
        self.assertAlmostEqual(findings["X709"]["lost_throughput"], 0.5, delta=0.2)

    def test_what_the_hooks_cost_is_told_where_a_step_reads_thousands_of_values(self):
        code = (
            "import torch\n\ntorch.set_num_threads(1)\nm = torch.nn.Linear(64, 8)\n"
            "o = torch.optim.SGD(m.parameters(), 0.1)\nvalues = torch.rand(1000)\n\n\n"
            "def main():\n    for i in range(150):\n"
            "        m(torch.ones(64, 64)).sum().backward()\n"
            "        o.step()\n        o.zero_grad()\n"
            "        sum(values[j].item() for j in range(1000))\n\n\nmain()\n"
        )
        run = self.profile(code=code)
        steps = json.loads(run.stdout)["steps"]
        self.assertGreater(steps["hooks_ms"], 0.1)
        self.assertLess(steps["hooks_ms"], 0.6 * steps["duration_p50_ms"])
        read = sum(
            place["calls_a_step"]
            for part in steps["parts"]
            if part["name"] == "sync"
            for place in part["where"]
        )
        self.assertAlmostEqual(read, 1000, delta=30)


class FaultOfEpochs(unittest.TestCase):
    """What shows over several epochs: how the data is dealt out, who saves, who evaluates."""

    def codes_with(self, fault):
        """Codes of findings and of suspicions, each with the lines it names."""
        environment = dict(os.environ, PATH=TORCH + ":" + os.environ["PATH"], OMP_NUM_THREADS="1")
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(
                [
                    BINARY,
                    "profile",
                    "--json",
                    "--",
                    "torchrun",
                    "--standalone",
                    "--nproc_per_node=2",
                    EPOCHS,
                    fault,
                ],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=200,
            )
        self.assertIn(run.returncode, (0, 1), run.stderr[-3000:])
        report = json.loads(run.stdout)
        return tuple(
            {
                finding["code"]: [place["line"] for place in finding["where"]]
                for finding in report[kind]
            }
            for kind in ("findings", "suspicions")
        )

    @second_try.whole_only
    def test_a_healthy_run_has_no_fault(self):
        self.assertEqual(self.codes_with("nothing"), ({}, {}))

    def test_data_that_is_not_dealt_out_is_found(self):
        findings, _ = self.codes_with("unsharded")
        self.assertEqual(findings, {"D204": [line_of("loader", EPOCHS)]})

    @second_try.whole_only
    def test_the_same_order_in_every_epoch_is_found(self):
        findings, _ = self.codes_with("same_order")
        self.assertEqual(findings, {"D205": [line_of("loader", EPOCHS)]})

    @second_try.whole_only
    def test_workers_that_start_anew_are_found(self):
        findings, _ = self.codes_with("restarts_workers")
        self.assertEqual(findings.get("D206"), [line_of("loader", EPOCHS)])

    @second_try.whole_only
    def test_one_seed_on_all_ranks_is_a_suspicion(self):
        findings, suspicions = self.codes_with("same_seed")
        self.assertEqual((findings, list(suspicions)), ({}, ["X705"]))

    @second_try.whole_only
    def test_ranks_that_write_one_file_are_found(self):
        findings, _ = self.codes_with("every_rank_saves")
        self.assertEqual(findings, {"X707": [line_of("every_rank_saves", EPOCHS)]})

    @second_try.whole_only
    def test_a_metric_that_nobody_adds_up_is_a_suspicion(self):
        findings, suspicions = self.codes_with("unreduced_metric")
        self.assertEqual(findings, {})
        self.assertIn(line_of("evaluation", EPOCHS), suspicions.get("X717", []))

    @second_try.whole_only
    def test_ranks_that_wait_for_the_evaluation_of_one_are_found(self):
        findings, _ = self.codes_with("one_rank_evaluates")
        self.assertIn(line_of("evaluation", EPOCHS), findings.get("S304", []))

    @second_try.whole_only
    def test_a_search_for_parameters_that_are_all_used_is_found(self):
        self.assertIn("C404", self.codes_with("searches_unused")[0])


if __name__ == "__main__":
    second_try.main()
