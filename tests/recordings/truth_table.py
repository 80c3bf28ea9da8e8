"""What `lockstep profile` says that a fault costs, and what it truly costs in the same run, on a GPU or on the CPU.

usage: truth_table.py [--cpu] [--keep FOLDER] LOCKSTEP PYTHON [FAULT...]

--keep: what was measured is kept there, one recording for each program. Each program (one_fault.py) trains with its fault while it is profiled, and then without it. Prints a table; ends
with 1 where a cause is missed, somebody else is blamed, or a cost is off by more than five points.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from make_corpus import FAULTS, HERE

WITHOUT_S, LONGEST_S = 3, 60
NOT_HERE = {"two-on-one", "spinning", "stops"}  # seen from outside: nothing trains in them
# that a GPU is needed for
OF_A_GPU = {"host-bound", "items", "tiny-batch", "fp32", "pageable"}
OF_A_GPU |= {"evaluation"}  # whether one rests in it
USUAL_STEPS = 120
# Batches come in bursts, one for each worker: the mean of 8 bursts is off by an eighth.
BURSTS = dict.fromkeys(("slow-data-2", "slow-data-6", "decoding", "network-data"), 120)
STEPS = BURSTS | {
    "saving": 200,
    "evaluation": 120,
    "host-bound": 150,
    "tiny-batch": 150,
    "none": 120,
}
OFF_AT_MOST = 0.05
NO_CAUSE = 0.03  # what costs less need not be found


def lines_of(fault):
    """Of the branch that is the fault: a wait within it is a part of what it costs."""
    with open(os.path.join(HERE, "one_fault.py"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    within, numbers = False, set()
    for number, line in enumerate(lines, 1):
        if line.strip().startswith(("if fault ==", "elif fault ==", "def ", "class ")):
            within = f'fault == "{fault}"' in line
        elif within:
            numbers.add(number)
    return numbers


def said_and_true(lockstep, python, fault, keep):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        recording = ["--record", os.path.join(keep, f"{fault}.jsonl.zst")] if keep else []
        run = subprocess.run(
            [lockstep, "profile", "--json", "-o", report, *recording]
            + ["--steps", str(STEPS.get(fault, USUAL_STEPS)), "--"]
            + [python, os.path.join(HERE, "one_fault.py"), fault]
            + [str(WITHOUT_S), str(LONGEST_S), str(STEPS.get(fault, USUAL_STEPS))],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=200,
        )
        times = json.loads(run.stdout.splitlines()[-1])
        with open(report, encoding="utf-8") as file:
            return json.load(file)["findings"], times


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--cpu", action="store_true")
    arguments.add_argument("--keep", type=os.path.abspath)
    arguments.add_argument("lockstep", type=os.path.abspath)
    arguments.add_argument("python")
    arguments.add_argument("fault", nargs="*")
    options = arguments.parse_args()
    lockstep, python, only, keep = options.lockstep, options.python, options.fault, options.keep
    left_out = NOT_HERE
    if options.cpu:
        left_out = NOT_HERE | OF_A_GPU
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    wrong = 0
    print("| fault | truly lost | said | line | also said |\n|---|---|---|---|---|", flush=True)
    for fault, (right, beside, _) in FAULTS.items():
        if fault in left_out or (only and fault not in only):
            continue
        try:
            findings, times = said_and_true(lockstep, python, fault, keep)
        except (subprocess.TimeoutExpired, ValueError, IndexError, OSError) as error:
            print(
                f"| {fault} | failed: {type(error).__name__} {str(error)[:80]} | | | |", flush=True
            )
            wrong += 1
            continue
        lost = 1 - times["without_ms"] / times["with_ms"]
        if (
            options.cpu
        ):  # nothing goes on meanwhile, and two cores make other steps wander by a tenth
            lost = times["in_fault_ms"] / times["with_ms"]
        found = [one for one in findings if one["code"] in right]
        others = [one for one in findings if one not in found]
        own_lines = lines_of(fault)
        within = [
            one
            for one in others
            if found and any(place["line"] in own_lines for place in one["where"][:1])
        ]
        others = [one for one in others if one not in within]
        said = max((one["lost_throughput"] for one in found), default=0)
        said += sum(one["lost_throughput"] for one in within)
        places = [
            f"{os.path.basename(p['file'])}:{p['line']}"
            for p in (found or [{}])[0].get("where", [])
        ]
        blamed = [one["code"] for one in others if one["code"] not in beside]
        is_right = (
            not blamed
            and (bool(found) == bool(right) or (right and not found and lost < NO_CAUSE))
            and (not right or abs(said - lost) <= OFF_AT_MOST)
        )
        wrong += not is_right
        print(
            f"| {fault} | {100 * lost:.0f} % | "
            + (
                f"{' '.join(one['code'] for one in found + within)} {100 * said:.0f} %"
                if found
                else "nothing"
            )
            + f" | {', '.join(places[:1])} | "
            + ", ".join(f"{one['code']} {100 * one['lost_throughput']:.0f} %" for one in others)
            + (" |" if is_right else " | <- wrong"),
            flush=True,
        )
    sys.exit(1 if wrong else 0)


main()
