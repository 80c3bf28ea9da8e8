"""Trains wrongly on purpose (lockstep-train --fault NAME) on two virtual GPUs, and asks `lockstep diagnose` what is wrong.

Faults that are seen from outside run without step marks, so that nothing but the GPUs' and the processes' behaviour tells of them.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

# A small net on two cores: a step takes some 200 ms. (At 50 ms the GPUs are idle together for 12 %
# of the time, since the trainer's own
# thread needs the cores too: D202 is then right to be raised.)
FLAGS = [
    "--device",
    "cpu",
    "--model",
    "tiny",
    "--batch-size",
    "16",
    "--workers",
    "1",
    "--dataset-size",
    "200000",
    "--steps",
    "1000000",
    "--log-every",
    "50",
    "--resume",
    "never",
]
FEW_SAMPLES = ["--dataset-size", "320"]  # epochs of a second or two
MORE_FLAGS = {
    "same-order": FEW_SAMPLES,
    "uneven-batches": FEW_SAMPLES,
    "sync-each-pass": ["--batch-size", "4"],
    "small-passes": ["--batch-size", "4"],
    "tiny-buckets": ["--layers", "24", "--width", "32", "--heads", "2", "--batch-size", "1"],
    "same-seeds": ["--dropout", "0.1"],
}
GOOD_UPDATES_S = 6.0  # the trainer's start and its good updates, after which the fault begins
WATCH_S = 12
WATCH_MARKS_S = 6  # steps of 0.2 s tell soon
# A run that stands still has no rate; two models that train apart have two; the rest lose no time,
# but what is learnt.
WITHOUT_A_RATE = (
    "hang",
    "unsynchronised",
    "uneven-batches",
    "same-seeds",
    "unsharded",
    "same-order",
)
# What the faults that add time add, by their own arithmetic (docs/faults.md): 0.3 of a step, or 1.5
# s every 6 s.
SHARE, STALL = 0.3 / 1.3, 1.5 / 6
INJECTED = {
    "slow-rank": SHARE,
    "slow-loader": SHARE,
    "no-workers": SHARE,
    "checkpoint-often": STALL,
    "rank0-evaluates": STALL,
    "throttled-rank": SHARE,
    "log-each-step": SHARE,
    "sync-each-step": SHARE,
    "collector-pauses": SHARE,
    "every-rank-saves": SHARE,
    "one-device": 0.5,
}
# ten seconds without progress; stalls that come every six
LONGER = {"hang": 16, "checkpoint-often": 20, "rank0-evaluates": 20, "every-rank-saves": 12}


def table(trainer):
    """The trainer's own: name, code, who sees it."""
    done = subprocess.run([trainer, "--list-faults"], capture_output=True, text=True, check=True)
    return [
        dict(zip(("name", "code", "seen_by", "what"), line.split("\t")))
        for line in done.stdout.splitlines()
    ]


def environment(folder, **more):
    return {
        **os.environ,
        "LOCKSTEP_VIRTUAL_SCOPE": os.path.basename(folder),
        "XDG_RUNTIME_DIR": folder,
        **more,
    }


@contextlib.contextmanager
def training(lockstep, name, folder, flags=(), output=subprocess.DEVNULL, faulty=True):
    """The program, until the block ends; or, to compare with, as it is without the fault."""
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    line = [
        trainer,
        *FLAGS,
        *MORE_FLAGS.get(name, ()),
        "--fault",
        name if faulty else "none",
        *flags,
    ]
    if name == "unsynchronised":
        programs = [
            subprocess.Popen(
                [*line, "--parallel", "single"],
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=environment(folder, CUDA_VISIBLE_DEVICES=str(gpu)),
            )
            for gpu in (0, 1)
        ]
    else:
        launch = [
            lockstep,
            "launch",
            "--standalone",
            "--no-checks",
            "--quiet",
            "--nproc-per-node=2",
            "--no-python",
        ]
        programs = [
            subprocess.Popen(
                launch + line,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=environment(folder),
            )
        ]
    try:
        yield programs
    finally:
        for program in programs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)
        for program in programs:
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()


def record(lockstep, name, marks, folder):
    """What is to be seen of a run, as a recording."""
    file = os.path.join(folder, f"{name}.jsonl")
    with training(lockstep, name, folder, [] if marks else ["--no-step-marks"]) as programs:
        time.sleep(GOOD_UPDATES_S)
        assert all(program.poll() is None for program in programs), (
            f"{name}: the trainer ended by itself"
        )
        seconds = LONGER.get(name, WATCH_MARKS_S if marks and name != "none" else WATCH_S)
        done = subprocess.run(
            [lockstep, "record", "virtual:2", "--duration", f"{seconds}s", "-o", file],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(folder),
        )
    assert done.returncode == 0, (name, done.returncode, done.stderr[-1000:])
    return file


def diagnose(lockstep, file):
    done = subprocess.run(
        [lockstep, "diagnose", file, "--json"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, 1), (file, done.returncode, done.stderr[-1000:])
    return json.loads(done.stdout)


def report_of(lockstep, name, marks):
    with tempfile.TemporaryDirectory(prefix="lockstep-fault-") as folder:
        return diagnose(lockstep, record(lockstep, name, marks, folder))


def beginning_of(file, seconds):
    """The recording as far as it had come by then."""
    part = f"{file}.{seconds}"
    with open(file) as whole, open(part, "w") as output:
        for line in whole:
            if json.loads(line).get("t_ms", 0) <= seconds * 1000:
                output.write(line)
    return part


def found(report, code):
    """The finding, and whether lockstep stands behind it."""
    for stands, kind in ((True, "findings"), (False, "suspicions")):
        for finding in report[kind]:
            if finding["code"] == code:
                return finding, stands
    return None, False


def rate_of(lockstep, name, faulty, seconds=8):
    """Samples a second of all ranks, once the fault is on: what the run is really slowed down
    to.
    """
    with tempfile.TemporaryDirectory(prefix="lockstep-fault-") as folder:
        log = os.path.join(folder, "log")
        with (
            open(log, "w") as output,
            training(
                lockstep,
                name,
                folder,
                ["--log-format", "json", "--log-every", "5", "--no-step-marks"],
                output,
                faulty,
            ),
        ):
            time.sleep(GOOD_UPDATES_S + seconds)
        rows = [
            json.loads(line) for line in open(log) if line.startswith("{") and line.endswith("}\n")
        ]
    last = rows[len(rows) // 2 :]  # the first half holds the start and the good updates
    time_of = sum(row["step_ms"] * 5 for row in last)
    return (
        sum(row["samples_per_s"] * row["step_ms"] * 5 for row in last) / time_of if time_of else 0.0
    )


def seconds_to_detect(lockstep, file, code):
    for seconds in (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20):
        if found(diagnose(lockstep, beginning_of(file, seconds)), code)[0]:
            return seconds
    return None


def bench_faults(lockstep, rounds, only=None):
    trainer = os.path.join(os.path.dirname(lockstep), "lockstep-train")
    if only in (None, "none"):
        good = [
            [
                finding["code"]
                for finding in report_of(lockstep, "none", marks=round_ % 2 == 0)["findings"]
            ]
            for round_ in range(10)
        ]
        print(
            f"\nwithout a fault: no finding in {sum(not codes for codes in good)} of {len(good)} runs {[codes for codes in good if codes] or ''}",
            flush=True,
        )
    print(
        f"fault              code  seen by     found    after  said lost  truly lost   (medians of {rounds}; after: seconds of a recording; *: by its arithmetic, else by rates)"
    )
    for row in table(trainer):
        if row["seen_by"] == "GPU" or only not in (None, row["name"]):
            continue
        after, said, truth = [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="lockstep-fault-") as folder:
                file = record(lockstep, row["name"], row["seen_by"] == "step marks", folder)
                finding, _ = found(diagnose(lockstep, file), row["code"])
                if finding:
                    said.append(finding["lost_throughput"])
                    after.append(seconds_to_detect(lockstep, file, row["code"]))
            # Wall time on a shared machine lies (the same run at 138 and at 54 samples a second,
            # seen): only where nothing else tells.
            if row["name"] in INJECTED:
                truth.append(INJECTED[row["name"]])
            elif row["name"] not in WITHOUT_A_RATE:
                whole = rate_of(lockstep, row["name"], faulty=False)
                truth.append(
                    1 - rate_of(lockstep, row["name"], faulty=True) / whole if whole else 0
                )
        print(
            f"{row['name']:18} {row['code']}  {row['seen_by']:10}  {len(said)} of {rounds}  {median(after, '{} s'):>5}  {median(said, '{:.0%}'):>9}  {median(truth, '{:.0%}'):>10}{'*' if row['name'] in INJECTED else ''}",
            flush=True,
        )


def median(values, form):
    return form.format(statistics.median_high(values)) if values else "-"
