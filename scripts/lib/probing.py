"""scripts/bench probes: what the probes cost, and how well they name causes that were put in on
purpose.
"""

import json
import os
import re
import statistics
import subprocess
import tempfile

CAUSES = [
    "nothing",
    "slow_dataset",
    "log_inside",
    "log_outside",
    "checkpoint",
    "item",
    "slow_rank_before",
    "slow_rank_between",
    "no_sync_missing",
    "gc",
    "reduce",
]


def cost(root, torch, rounds):
    """Ours and TraceML's by turns; each of them is measured on and off within its own process."""
    probe = os.path.join(root, "build/release/lib/lockstep/python")
    python = os.path.join(torch, "bin/python")
    traceml = traceml_package(torch)
    ours, at_first, peers = [], [], []
    for _ in range(rounds):
        run = subprocess.run(
            [python, os.path.join(root, "tests/probes/cost_of_hooks.py"), probe],
            capture_output=True,
            text=True,
            check=True,
        )
        times = json.loads(run.stdout.strip().splitlines()[-1])
        ours.append(times["adds_later_ms"] / times["without_ms"])
        at_first.append(times["adds_at_first_ms"] / times["without_ms"])
        if traceml:
            peers.append(cost_of_traceml(root, python, traceml))
    print(f"a step of {times['without_ms']:.1f} ms on one core, medians of {rounds}:")
    share = statistics.median(ours)
    print(
        f"  probe python            {share * 100:+.2f} %  (least {min(ours) * 100:.2f}, most {max(ours) * 100:.2f}; goal 1 %: {'met' if share <= 0.01 else 'MISSED'})"
    )
    print(f"  in its first 5 seconds  {statistics.median(at_first) * 100:+.2f} %")
    if peers:
        print(
            f"  TraceML 0.5.0           {statistics.median(peers) * 100:+.2f} %  ({statistics.median(peers) / share:.1f} times ours; without what it patches for good)"
        )
    print("  rung 0 (no probe)        the processes are not touched")
    cost_of_nccl_probe(root, rounds)


def cost_of_nccl_probe(root, rounds):
    """NCCL's own calls of one all-reduce (a group, the call, the plan, the collective), made by a
    program, with the plugin and with one that does nothing.
    """
    program = os.path.join(root, "build/dev/tests/nccl_program")
    plugin = os.path.join(root, "build/release/lib/lockstep/liblockstep_nccl_probe.so")
    if not os.path.exists(program):
        print("  probe nccl               left out: build/dev/tests/nccl_program is not there")
        return
    on, off = [], []
    for _ in range(max(3, rounds)):
        with tempfile.TemporaryDirectory() as folder:
            for times, probes in ((on, "nccl,cuda"), (off, "python")):
                run = subprocess.run(
                    [program, plugin, "5", "200000", "time"],
                    capture_output=True,
                    text=True,
                    env={"LOCKSTEP_PROBE": probes, "LOCKSTEP_PROBE_FOLDER": folder},
                )
                times.append(float(run.stdout.split()[0]))
    nanoseconds = statistics.median(on) - statistics.median(off)
    share = 20 * nanoseconds / 80e6
    print(
        f"  probe nccl               {nanoseconds:.0f} ns a collective: {share * 100:.4f} % of a step of 80 ms with 20 of them (goal 1 %: {'met' if share <= 0.01 else 'MISSED'})"
    )


def traceml_package(torch):
    """Its folder, beside torch's virtual environment; None where it cannot be installed."""
    folder = os.path.join(os.path.dirname(torch), "traceml")
    if not os.path.isdir(os.path.join(folder, "traceml_ai")):
        wanted = [
            "traceml-ai==0.5.0",
            "rich",
            "psutil",
            "nvidia-ml-py",
            "msgspec",
            "pyyaml",
            "markdown-it-py",
            "mdurl",
            "pygments",
        ]
        install = subprocess.run(
            [
                os.path.join(torch, "bin/python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--target",
                folder,
                *wanted,
            ],
            capture_output=True,
            text=True,
        )
        if install.returncode != 0:
            print("TraceML left out: it cannot be installed")
            return None
    return folder


def cost_of_traceml(root, python, package):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "cost.json")
        environment = dict(os.environ, PYTHONPATH=package, COST_FILE=file)
        command = [
            python,
            "-m",
            "traceml_ai.launcher.cli",
            "run",
            os.path.join(root, "tests/probes/cost_of_traceml.py"),
        ]
        subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True)
        with open(file, encoding="utf-8") as written:
            times = json.load(written)
    return times["adds_ms"] / times["without_ms"]


def ground_truth(root, torch):
    script = os.path.join(root, "tests/probes/training_with_a_cause.py")
    lockstep = os.path.join(root, "build/release/bin/lockstep")
    with open(script, encoding="utf-8") as source:
        lines = {
            mark.group(1): number + text.lstrip().startswith("#")  # alone: the next line
            for number, text in enumerate(source, 1)
            if (mark := re.search(r"# CAUSE: (\w+)", text))
        }
    print(f"{'cause':20} {'true share':>10} {'line':>5}   found")
    with tempfile.TemporaryDirectory() as folder:
        for cause in CAUSES:
            truth = os.path.join(folder, "truth.json")
            environment = dict(
                os.environ,
                PATH=os.path.join(torch, "bin") + ":" + os.environ["PATH"],
                OMP_NUM_THREADS="1",
            )
            run = subprocess.run(
                [
                    lockstep,
                    "profile",
                    "--json",
                    "--",
                    "torchrun",
                    "--standalone",
                    "--nproc_per_node=2",
                    script,
                    cause,
                    "--truth",
                    truth,
                ],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
            )
            report = json.loads(run.stdout)
            with open(truth, encoding="utf-8") as file:
                true = max(rank["seconds"] / rank["wall"] for rank in json.load(file)["ranks"])
            found = [
                f"{finding['code']} {finding['lost_throughput'] * 100:.1f} % ranks {finding['ranks']} lines {[place['line'] for place in finding['where']]}"
                for finding in report["findings"]
            ]
            found += [
                f"({finding['code']} lines {[place['line'] for place in finding['where']]})"
                for finding in report["suspicions"]
            ]
            print(
                f"{cause:20} {true * 100:9.1f} % {lines.get(cause, 0) or '-':>5}   {'; '.join(found) or 'silent'}"
            )


def on_a_gpu(root, torch, rounds):
    """What all probes cost a training there: where the GPU is the limit within one process, by its halves; where
    the host is, part by part.
    """
    python = os.path.join(torch, "bin/python")
    asks = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)"
    if subprocess.run([python, "-c", asks], capture_output=True).returncode != 0:
        print("on a GPU: left out, there is none (or torch has no CUDA)")
        return
    lockstep = os.path.join(root, "build/release/bin/lockstep")
    subprocess.run(
        [
            python,
            os.path.join(root, "tests/recordings/probe_cost.py"),
            "--rounds",
            str(rounds),
            lockstep,
            python,
            "gpu-bound",
            "compiled",
        ],
        check=True,
    )
    run = subprocess.run(
        [
            python,
            "cost_when_the_host_limits.py",
            os.path.join(root, "build/release/lib/lockstep/python"),
            "70",
        ],
        cwd=os.path.join(root, "tests/probes"),
        capture_output=True,
        text=True,
        check=True,
    )
    parts = json.loads(run.stdout.splitlines()[-1])
    windows = 0.005  # of a long run, by their own law
    share = max(0.0, parts["hooks"]) + parts["thread"] + windows
    print(
        f"a step of {parts['step_ms']} ms that the host limits: hooks {100 * parts['hooks']:.1f} +- {100 * parts['hooks_error']:.1f} %, "
        f"thread {100 * parts['thread']:.1f} +- {100 * parts['thread_error']:.1f} %, windows at most {100 * windows:.1f} %: "
        f"{100 * share:.1f} % (goal 1 %: {'met' if share <= 0.01 else 'MISSED'})"
    )


def bench(root, torch, rounds):
    cost(root, torch, rounds)
    on_a_gpu(root, torch, rounds)
    ground_truth(root, torch)
