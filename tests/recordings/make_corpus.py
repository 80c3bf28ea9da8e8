"""Makes recordings of one known fault each, with what it truly costs. On a machine with a GPU:

usage: make_corpus.py LOCKSTEP PYTHON FOLDER [FAULT...]

Each program (one_fault.py) trains without its fault, then with it; the second phase is recorded from outside.
FOLDER gets FAULT.jsonl.zst of each and corpus.json with the step times and what a report must say.
"""

import json
import os
import signal
import subprocess
import sys
import time

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
    "tiny-batch": (["B501"], ["S305"], []),
    "fp32": (["B503"], [], []),
    "pageable": (["D203"], ["D201"], []),
    "two-on-one": (["L802"], [], []),
    "spinning": (["C406"], [], []),
    "stops": (["C406", "S307"], [], []),
}


def start(python, folder, fault, without_s, with_s):
    return subprocess.Popen(
        [python, os.path.join(HERE, "one_fault.py"), fault, str(without_s), str(with_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=folder,
    )


def end(program):
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()


def make(lockstep, python, folder, fault):
    file = os.path.join(folder, f"{fault}.jsonl.zst")
    two = fault == "two-on-one"
    program = start(python, folder, fault, WITHOUT_S, WITH_S)
    second = None
    try:
        for line in program.stdout:
            if "phase" in line:
                break
        else:
            return {"error": program.stderr.read()[-800:]}
        if two:
            second = start(python, folder, "none", 2 * WITH_S, 1)
            time.sleep(START_S)
        time.sleep(3)  # its first steps
        done = subprocess.run(
            [lockstep, "record", "--duration", f"{RECORD_S}s", "-o", file],
            capture_output=True,
            text=True,
            timeout=120,
        )
        times = json.loads(program.stdout.readline() or "{}")
    finally:
        end(program)
        if second:
            end(second)
    for left in ("saved.pt", "steps.log"):
        if os.path.exists(os.path.join(folder, left)):
            os.unlink(os.path.join(folder, left))
    right, beside, without_stacks = FAULTS[fault]
    lost = 1 - times["without_ms"] / times["with_ms"] if times.get("with_ms") else None
    return {
        "right": right,
        "beside": beside,
        "without_stacks": without_stacks,
        "true_loss": lost if lost is None else round(lost, 3),
        **times,
        **({} if done.returncode == 0 else {"error": done.stderr[-300:]}),
    }


def main(words):
    if len(words) < 3:
        sys.exit(__doc__)
    lockstep, python, folder, *wanted = words
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "corpus.json")
    corpus = json.load(open(path, encoding="utf-8")) if os.path.exists(path) else {}
    for fault in wanted or FAULTS:
        corpus[fault] = make(lockstep, python, folder, fault)
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
            for part in report["jobs"][0]["ledger"]["parts"]
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
