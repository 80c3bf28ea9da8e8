"""Makes recordings of one known fault each, with what it truly costs. On a machine with a GPU:

usage: make_corpus.py LOCKSTEP PYTHON FOLDER [FAULT...]
       make_corpus.py LOCKSTEP PYTHON FOLDER --programs PROGRAMS [NAME...]

Each program (one_fault.py, or NAME.py in the folder PROGRAMS) trains without its fault, then with it; the second
phase is recorded from outside. FOLDER gets FAULT.jsonl.zst of each and corpus.json with the step times and what a
report must say, which PROGRAMS/expected.json says of programs that others wrote.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
WITHOUT_S, WITH_S, RECORD_S = 4, 16, 12
START_S = 12  # of a second program, until it trains: SECOND_STARTS_S of one_fault.py

# fault: codes of which one is right, codes that may stand beside it, and codes that may stand for it where no Python
# stacks were taken
FAULTS = {
    "none": ([], [], []),
    "accumulation": ([], [], []),
    "compiled": ([], [], []),
    "host-bound": (["S305"], ["B501"], []),
    "slow-data-0": (["D201", "D202"], ["D201", "D202"], []),
    "slow-data-2": (["D201"], [], []),
    "slow-data-6": (["D201"], [], []),
    "decoding": (["D201"], [], []),
    "network-data": (["D201"], [], []),
    "items": (["S301"], ["S305"], []),
    "slow-logging": (["S302"], ["S301"], ["S307"]),
    "file-logging": (["S302", "S301"], ["S302", "S301"], []),
    "saving": (["S303"], [], []),
    "evaluation": (["S304", "S307"], [], []),
    "collector": (["S306"], [], ["S307"]),
    "python-metric": (["S307"], ["S301"], []),
    "server-logging": (["S302"], ["S301"], ["S307"]),
    "augmenting": (["D201"], [], ["S307"]),
    "copying": (["S307"], [], []),
    "sleeping": (["S307"], ["S301"], []),
    "forward-waits": (["S307"], [], ["S307"]),
    "hook-waits": (["S307"], [], ["S307"]),
    "convolutions": ([], [], []),
    "recurrent": ([], [], []),
    "tiny-batch": (["B501"], ["S305"], []),
    "fp32": (["B503"], [], []),
    "pageable": (["D203"], ["D201"], []),
    "two-on-one": (["L802"], [], []),
    "spinning": (["C406"], [], []),
    "stops": (["C406", "S307"], [], []),
}


@dataclass
class Case:
    program: list  # its command, but for how long it trains without and with the fault
    right: list
    beside: list
    without_stacks: list
    second: list | None = None  # starts when the fault begins, on the same GPU


def own_case(fault):
    program = [os.path.join(HERE, "one_fault.py"), fault]
    second = [os.path.join(HERE, "one_fault.py"), "none"] if fault == "two-on-one" else None
    return Case(program, *FAULTS[fault], second)


def cases_of(folder):
    """Of programs that others wrote."""
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    return {
        name: Case(
            [os.path.join(folder, f"{name}.py")],
            row["right"],
            row["beside"],
            row.get("without_stacks", []),
        )
        for name, row in expected.items()
    }


def start(python, folder, program, without_s, with_s):
    with open(os.path.join(folder, "errors.txt"), "w", encoding="utf-8") as errors:
        return subprocess.Popen(
            [python, *program, str(without_s), str(with_s)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            cwd=folder,
        )


def errors_of(folder):
    with open(os.path.join(folder, "errors.txt"), encoding="utf-8") as file:
        return file.read()[-800:]


def read_within(program, seconds):
    """A line of what it says, or nothing: a program that is stuck says none."""
    ready, _, _ = select.select([program.stdout], [], [], seconds)
    return program.stdout.readline() if ready else ""


def end(program):
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()


def make(lockstep, python, folder, name, case):
    file = os.path.join(folder, f"{name}.jsonl.zst")
    program = start(python, folder, case.program, WITHOUT_S, WITH_S)
    second = None
    try:
        for line in program.stdout:
            if "phase" in line:
                break
        else:
            return {"error": errors_of(folder), "true_loss": None}
        if case.second:
            second = start(python, folder, case.second, 2 * WITH_S, 1)
            time.sleep(START_S)
        time.sleep(3)  # its first steps
        done = subprocess.run(
            [lockstep, "record", "--duration", f"{RECORD_S}s", "-o", file],
            capture_output=True,
            text=True,
            timeout=120,
        )
        times = json.loads(read_within(program, 2 * WITH_S) or "{}")
        if not times:
            print(name, errors_of(folder), flush=True)
    finally:
        end(program)
        if second:
            end(second)
    for left in ("saved.pt", "steps.log", "errors.txt"):
        if os.path.exists(os.path.join(folder, left)):
            os.unlink(os.path.join(folder, left))
    lost = 1 - times["without_ms"] / times["with_ms"] if times.get("with_ms") else None
    return {
        "right": case.right,
        "beside": case.beside,
        "without_stacks": case.without_stacks,
        "true_loss": lost if lost is None else round(lost, 3),
        **times,
        **({} if done.returncode == 0 else {"error": done.stderr[-300:]}),
    }


def main(words):
    if len(words) < 3:
        sys.exit(__doc__)
    lockstep, python, folder, *wanted = words
    cases = {fault: own_case(fault) for fault in FAULTS}
    if wanted[:1] == ["--programs"]:
        cases, wanted = cases_of(os.path.abspath(wanted[1])), wanted[2:]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "corpus.json")
    corpus = json.load(open(path, encoding="utf-8")) if os.path.exists(path) else {}
    for fault in wanted or cases:
        corpus[fault] = make(lockstep, python, folder, fault, cases[fault])
        with open(path, "w", encoding="utf-8") as file:
            json.dump(corpus, file, indent=1, sort_keys=True)
        file = os.path.join(folder, f"{fault}.jsonl.zst")
        if not os.path.exists(file):
            print(fault, corpus[fault], flush=True)
            continue
        report = json.loads(
            subprocess.run(
                [lockstep, "diagnose", "--json", file], capture_output=True, text=True
            ).stdout
        )
        parts = {
            part["name"]: part["share"]
            for job in report["jobs"][:1]
            for part in job["ledger"]["parts"]
            if part["share"] > 0.01
        }
        print(
            f"{fault:14} true {corpus[fault]['true_loss']}  said "
            + " ".join(
                f"{f['code']}:{f['confidence']:.2f}:{f['lost_throughput']:.2f}:{[w['line'] for w in f['where']]}"
                for f in report["findings"]
            ),
            parts,
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
