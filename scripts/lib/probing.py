"""scripts/bench probes: what the probes cost, and how well they name causes that were put in on purpose."""

import json
import os
import re
import statistics
import subprocess
import tempfile

CAUSES = ["nothing", "slow_dataset", "log_inside", "log_outside", "checkpoint", "item", "slow_rank_before", "slow_rank_between", "no_sync_missing", "gc", "reduce"]


def cost(root, torch, rounds):
    probe = os.path.join(root, "build/release/lib/lockstep/python")
    ratios = []
    for _ in range(rounds):
        run = subprocess.run([os.path.join(torch, "bin/python"), os.path.join(root, "tests/probes/cost_of_hooks.py"), probe], capture_output=True, text=True, check=True)
        times = json.loads(run.stdout.strip().splitlines()[-1])
        ratios.append((times["with_ms"] / times["without_ms"] - 1, times["with_ms"] - times["without_ms"]))
    share = statistics.median(ratio for ratio, _ in ratios)
    print(f"probe python on a step of 6 ms: {share * 100:+.2f} % ({statistics.median(more for _, more in ratios) * 1e3:.0f} us a step, median of {rounds}); goal 1 %")
    print("rung 0 (no probe): the processes are not touched")


def ground_truth(root, torch):
    script = os.path.join(root, "tests/probes/training_with_a_cause.py")
    lockstep = os.path.join(root, "build/release/bin/lockstep")
    with open(script, encoding="utf-8") as source:
        lines = {mark.group(1): number for number, text in enumerate(source, 1) if (mark := re.search(r"# CAUSE: (\w+)", text))}
    print(f"{'cause':20} {'true share':>10} {'line':>5}   found")
    with tempfile.TemporaryDirectory() as folder:
        for cause in CAUSES:
            truth = os.path.join(folder, "truth.json")
            environment = dict(os.environ, PATH=os.path.join(torch, "bin") + ":" + os.environ["PATH"], OMP_NUM_THREADS="1")
            run = subprocess.run([lockstep, "profile", "--json", "--", "torchrun", "--standalone", "--nproc_per_node=2", script, cause, "--truth", truth], env=environment, cwd=folder, capture_output=True, text=True)
            report = json.loads(run.stdout)
            with open(truth, encoding="utf-8") as file:
                true = max(rank["seconds"] / rank["wall"] for rank in json.load(file)["ranks"])
            found = [f"{finding['code']} {finding['lost_throughput'] * 100:.1f} % ranks {finding['ranks']} lines {[place['line'] for place in finding['where']]}" for finding in report["findings"]]
            found += [f"({finding['code']} lines {[place['line'] for place in finding['where']]})" for finding in report["suspicions"]]
            print(f"{cause:20} {true * 100:9.1f} % {lines.get(cause, 0) or '-':>5}   {'; '.join(found) or 'silent'}")


def bench(root, torch, rounds):
    cost(root, torch, rounds)
    ground_truth(root, torch)
