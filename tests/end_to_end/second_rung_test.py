#!/usr/bin/env python3
"""lockstep profile with the CUDA probe, in a real torch process whose GPU is a CUPTI that a script
feeds.
"""

import json
import os
import subprocess
import sys
import tempfile

BINARY = os.environ["LOCKSTEP_BINARY"]
SOURCE = os.environ["LOCKSTEP_SOURCE_DIR"]
PYTHON = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin", "python")
FAKE = os.path.join(os.environ["LOCKSTEP_TEST_TOOLS"], "cupti", "libcupti.so.99")
SCRIPT = os.path.join(SOURCE, "tests/probes/training_beside_a_fake_gpu.py")

failures = []


def check(true, words):
    if not true:
        failures.append(words)
        print("FAILED:", words)


def profile(cause, *options, probes="python,cuda"):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "report.json")
        run = subprocess.run(
            [
                BINARY,
                "profile",
                "--probe",
                probes,
                "--format",
                "json",
                "-o",
                out,
                *options,
                "--",
                PYTHON,
                SCRIPT,
                FAKE,
                cause,
            ],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if not os.path.exists(out):
            print(run.stdout, run.stderr)
            raise SystemExit(f"profile {cause} wrote no report")
        with open(out) as file:
            return json.load(file), run


def rank_of(report):
    return report["steps"]["on_gpus"]["ranks"][0]


def codes(report):
    return [finding["code"] for finding in report["findings"]]


def main():
    if not os.path.exists(PYTHON):
        print(f"skipped: no torch at {PYTHON}; scripts/setup --tests makes it")
        sys.exit(77)

    report, run = profile("nothing")
    rank = rank_of(report)
    gpu = rank["devices"][0]
    check(
        report["probes"]["rung"] == 2 and "cuda" in report["probes"]["heard"],
        "the report says that it stands on rung 2",
    )
    check(
        gpu["computes"] > 0.7,
        f"a GPU that sets the pace computes nearly always, not {gpu['computes']}",
    )
    check(
        abs(gpu["computes"] + gpu["collectives_exposed"] + gpu["copies"] + gpu["idle"] - 1) < 1e-3,
        "the uses sum to 1",
    )
    check(abs(gpu["kernels_a_step"] - 10) < 0.5, f"ten kernels a step, not {gpu['kernels_a_step']}")
    check(
        "S305" not in codes(report) and "D201" not in codes(report),
        f"nothing is found in a healthy run, not {codes(report)}",
    )

    report, _ = profile("starved")
    rank = rank_of(report)
    check(
        rank["idle_by_part"].get("data_wait", 0) > 0.25,
        f"the GPU is idle while the loader is waited for, not {rank['idle_by_part']}",
    )
    check("D201" in codes(report), f"input-starved is found, not {codes(report)}")

    report, _ = profile("launch_bound")
    rank = rank_of(report)
    check("S305" in codes(report), f"launch-bound is found, not {codes(report)}")
    check(
        rank["launch_gaps_a_step"] > 8,
        f"a gap behind every kernel, not {rank['launch_gaps_a_step']}",
    )
    found = next((finding for finding in report["findings"] if finding["code"] == "S305"), {})
    check(found.get("rung") == 2, "launch-bound is proved by the GPU's own records")

    report, _ = profile("turns")
    check("P101" in codes(report), f"two GPUs that take turns are found, not {codes(report)}")
    check(
        rank_of(report)["exclusive"] > 0.95,
        f"exactly one computes, not {rank_of(report)['exclusive']}",
    )

    report, _ = profile("exposed")
    gpu = rank_of(report)["devices"][0]
    check(
        0.45 < gpu["collectives_exposed"] / gpu["computes"] < 0.7,
        f"6 ms of a collective alone stand beside 10 ms of computing, not {gpu}",
    )

    report, _ = profile("hidden")
    gpu = rank_of(report)["devices"][0]
    check(
        gpu["collectives_exposed"] < 0.1
        and gpu["collectives_hidden"] > 3 * gpu["collectives_exposed"],
        f"a collective beside computing is hidden, not {gpu}",
    )

    report, _ = profile("mask")
    waits = [
        line
        for part in report["steps"]["parts"]
        if part["name"] == "sync"
        for line in part["where"]
    ]
    check(
        any("wait for the GPU" in line["what"] for line in waits),
        f"a wait that no line shows is found within the forward pass, not {waits}",
    )

    report, _ = profile("profiler")
    check(
        any(
            entry["signal"] == "cuda" and "torch.profiler" in entry["reason"]
            for entry in report["not_measured"]
        ),
        f"the probe makes way for torch.profiler and says so: {report['not_measured']}",
    )

    with tempfile.TemporaryDirectory() as folder:
        trace, recording = os.path.join(folder, "trace.json"), os.path.join(folder, "run.jsonl.zst")
        report, _ = profile("launch_bound", "--trace", trace, "--record", recording)
        with open(trace) as file:
            kernels = [
                event for event in json.load(file)["traceEvents"] if event.get("cat") == "kernel"
            ]
        check(len(kernels) > 300, f"the trace holds the kernels, not {len(kernels)}")
        again = subprocess.run(
            [BINARY, "diagnose", recording, "--format", "json"], capture_output=True, text=True
        )
        check(
            "S305" in codes(json.loads(again.stdout or '{"findings":[]}')),
            f"what profile recorded is diagnosed alike: {again.stdout[:300]}{again.stderr}",
        )

    report, _ = profile("nothing", probes="python")
    check(
        "on_gpus" not in report["steps"] and report["probes"]["rung"] == 1,
        "without the CUDA probe it stands on rung 1",
    )

    run = subprocess.run(
        [BINARY, "profile", "--probe", "python,cuda", "--", PYTHON, SCRIPT, FAKE, "starved"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    print(run.stdout)
    check(
        "on the GPUs, by their own records" in run.stdout and "rung 2" in run.stdout,
        "the text says it too",
    )
    sys.exit(1 if failures else 0)


main()
