"""How often lockstep is right on recordings whose truth is known (situations.py).

Every situation, variant and seed is generated, diagnosed twice and judged: once to the end of the recording, once
with --until-sure, where lockstep stops as soon as it is sure, as it does live.
"""

import collections
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from gpu_model import recording
from situations import KNOWN_CODES, SITUATIONS, Expectation, make

PATTERNS = (
    "in-step",
    "taking-turns",
    "one-leads",
    "pipeline",
    "single-gpu",
    "independent",
    "idle",
    "unclear",
)
BUSY_ALONE = ("busy_only", "busy_1s")
LONGEST_S = 60  # a diagnosis of 40 s of recording takes milliseconds; this is a hang


@dataclass
class Diagnosis:
    pattern: str = "error"
    findings: frozenset = frozenset()
    suspicions: frozenset = frozenset()
    duration_s: float = 0.0
    error: str = ""  # what lockstep said instead of a report
    gpus: tuple = ()  # of the first job
    ledger: dict = field(default_factory=dict)  # its shares, by part
    waiting_is_known: bool = True  # else `working` holds waiting for others too
    sure: float = 0.0  # of the verdict
    said: tuple = ()  # (code, confidence) of findings and suspicions


@dataclass
class Run:
    situation: str
    variant: str
    seed: int
    expected: Expectation
    length_s: float
    ready_s: float  # the start-up phase within the recording
    truth: dict = field(default_factory=dict)  # the first job's shares, by part
    whole: Diagnosis = field(default_factory=Diagnosis)
    until_sure: Diagnosis = field(default_factory=Diagnosis)

    def right(self, diagnosis):
        return diagnosis.pattern == self.expected.right or diagnosis.pattern in self.expected.accept

    def false_codes(self):
        """Findings that are wrong: all of them on a healthy run."""
        if self.expected.healthy:
            return self.whole.findings
        sure = dict(self.whole.said)
        guesses = {code for code in self.expected.guess if sure.get(code, 1.0) < 0.6}
        return (self.whole.findings & self.expected.must_not) - guesses

    def missed_codes(self):
        return (self.expected.must - self.whole.findings) | (
            self.expected.seen - self.whole.findings - self.whole.suspicions
        )

    def wrong(self):
        return not self.right(self.whole) or bool(self.false_codes() or self.missed_codes())


# ---- running ----


def diagnose(lockstep, path, *options):
    command = [lockstep, "diagnose", path, "--json", "--quiet", *options]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return Diagnosis(error=f"no answer within {LONGEST_S} s")
    if done.returncode not in (0, 1):
        return Diagnosis(error=f"exit {done.returncode}: {done.stderr.strip()}")
    try:
        report = json.loads(done.stdout)
        codes = lambda name: frozenset(finding["code"] for finding in report[name])
        found = codes("findings")
        if bool(found) != bool(done.returncode):
            return Diagnosis(error=f"exit {done.returncode} with {len(found)} findings")
        verdict = report["verdict"] or {"pattern": "none", "confidence": 0.0}
        job = report["jobs"][0] if report["jobs"] else {"gpus": (), "ledger": {"parts": ()}}
        return Diagnosis(
            verdict["pattern"],
            found,
            codes("suspicions"),
            report["duration_s"],
            gpus=tuple(job["gpus"]),
            ledger={part["name"]: part["share"] for part in job["ledger"]["parts"]},
            waiting_is_known=job["ledger"].get("waiting_is_known", True),
            sure=verdict["confidence"],
            said=tuple(
                (finding["code"], finding["confidence"])
                for finding in report["findings"] + report["suspicions"]
            ),
        )
    except (ValueError, KeyError, TypeError) as problem:
        return Diagnosis(error=f"not a report: {problem!r} {done.stderr.strip()}")


def run_one(task):
    lockstep, folder, situation, variant, seed = task
    scene, expected = make(situation, variant, seed)
    path = os.path.join(folder, f"{situation}-{variant}-{seed}.jsonl")
    with open(path, "w") as file:
        file.write(recording(scene))
    run = Run(
        situation,
        variant,
        seed,
        expected,
        (scene.end - scene.t0) / 1000,
        (scene.ready - scene.t0) / 1000,
        whole=diagnose(lockstep, path),
        until_sure=diagnose(lockstep, path, "--until-sure"),
    )
    run.truth = true_ledger(scene, run.whole.gpus)
    os.unlink(path)  # 160 kB each
    return run


def true_ledger(scene, gpus):
    """Shares of these GPUs' time, from the end of start-up to the end of the work."""
    begin, end = max(scene.ready, scene.t0), min(scene.over, scene.end)
    truth = collections.Counter()
    for gpu in gpus:
        for part, part_share in scene.gpus[gpu].lane.shares(begin, end).items():
            truth[part] += part_share / len(gpus)
    if gpus and all(scene.gpus[gpu].power_capped for gpu in gpus):
        moved = 0.1 * truth["working"]  # a clock of 0.72 of the highest, where 0.8 is usual
        truth["working"] -= moved
        truth["slowed"] += moved
    return dict(truth)


def all_runs(lockstep, seeds, jobs, only, first_seed):
    rows = [row for row in SITUATIONS.values() if only in (None, row.name)]
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        tasks = [
            (lockstep, folder, row.name, variant, seed)
            for row in rows
            for variant in row.variants
            for seed in range(first_seed, first_seed + seeds)
        ]
        return list(pool.map(run_one, tasks, chunksize=8))


# ---- printing ----


def percent(part, whole):
    return f"{100 * part / whole:5.1f} %" if whole else "    -  "


def share(part, whole):
    return part / whole if whole else 0.0


def goal(text, met):
    print(f"  goal {'met' if met else 'MISSED'}: {text}")


def print_errors(runs):
    sys.stdout.flush()
    said = collections.Counter(
        d.error for run in runs for d in (run.whole, run.until_sure) if d.error
    )
    for error, count in said.most_common():
        print(f"  error in {count} runs: {error}", file=sys.stderr)


def print_confusion(title, runs):
    print(f"\n{title}: {len(runs)} runs; rows: right, columns: lockstep's verdict")
    columns = [*PATTERNS, *sorted({run.whole.pattern for run in runs} - set(PATTERNS))]
    counts = collections.Counter((run.expected.right, run.whole.pattern) for run in runs)
    print(f"  {'':13}" + "".join(f"{name:>13}" for name in columns))
    for row in PATTERNS[:-1]:
        if any(run.expected.right == row for run in runs):
            print(f"  {row:13}" + "".join(f"{counts[row, name] or '.':>13}" for name in columns))


def print_patterns(decidable, runs):
    """Recall where the pattern can be known; precision over everything, since a definite word must
    be right anywhere.
    """
    print(f"\n  {'pattern':14}{'recall':>18}{'precision':>22}")
    for pattern in PATTERNS[:-1]:
        wanted = [run for run in decidable if run.expected.right == pattern]
        given = [run for run in runs if run.whole.pattern == pattern]
        recalled, true = (
            sum(run.right(run.whole) for run in wanted),
            sum(run.right(run.whole) for run in given),
        )
        print(
            f"  {pattern:14}{percent(recalled, len(wanted)):>10} of {len(wanted):<6}{percent(true, len(given)):>12} of {len(given)}"
        )


def print_codes(runs):
    """Findings only; suspicions stand apart. Other: a code that no situation here is about, on a
    run that is not healthy.
    """
    print(
        f"\n  {'code':6}{'demanded':>10}{'found':>8}{'suspected':>11}{'recall':>10}{'false':>8}{'precision':>12}{'suspected falsely':>20}{'other':>8}"
    )
    codes = sorted(
        set().union(
            *(
                r.expected.must | r.expected.seen | r.whole.findings | r.whole.suspicions
                for r in runs
            )
        )
    )
    for code in codes:
        demanded = [run for run in runs if code in run.expected.must | run.expected.seen]
        found = sum(code in run.whole.findings for run in demanded)
        suspected = sum(code in run.whole.suspicions - run.whole.findings for run in demanded)
        enough = sum(code not in run.missed_codes() for run in demanded)
        false = sum(code in run.false_codes() for run in runs)
        true = sum(code in run.whole.findings - run.false_codes() for run in runs)
        falsely = sum(
            code in run.whole.suspicions and (run.expected.healthy or code in run.expected.must_not)
            for run in runs
        )
        other = sum(
            code in run.whole.findings - run.false_codes() - run.expected.must - run.expected.seen
            for run in runs
        )
        print(
            f"  {code:6}{len(demanded):>10}{found:>8}{suspected:>11}{percent(enough, len(demanded)):>10}{false:>8}"
            f"{percent(true, true + false):>12}{falsely:>20}{other:>8}"
        )


def print_variants(runs):
    print(f"\n  {'variant':18}{'runs':>6}{'right':>10}{'unclear':>10}{'wrong, not unclear':>20}")
    for variant in dict.fromkeys(run.variant for run in runs):
        those = [run for run in runs if run.variant == variant]
        unclear = sum(run.whole.pattern == "unclear" for run in those)
        definite_wrong = sum(is_definitely_wrong(run, run.whole) for run in those)
        right = sum(run.right(run.whole) for run in those)
        print(
            f"  {variant:18}{len(those):>6}{percent(right, len(those)):>10}{percent(unclear, len(those)):>10}{percent(definite_wrong, len(those)):>20}"
        )


def is_definitely_wrong(run, diagnosis):
    return diagnosis.pattern != "unclear" and not run.right(diagnosis)


def ledger_errors(run):
    """By part, how far the ledger is from the truth. Time that the truth has no reason for may be
    told as unknown only; a reason that is not told is an error of the part and of unknown, unless
    the input cannot tell it from others (`either`). Where lockstep says that it does not know
    working from waiting, the two are one part.
    """
    told, truth = collections.Counter(run.whole.ledger), collections.Counter(run.truth)
    if not run.whole.waiting_is_known:
        for shares in (told, truth):
            for part in ("other_rank", "link"):
                shares["working"] += shares.pop(part, 0.0)
    for part in run.expected.either:
        told[part] += max(0.0, min(truth[part] - told[part], told["unknown"] - truth["unknown"]))
    return {part: told[part] - truth[part] for part in set(told) | set(truth) if part != "unknown"}


def ledger_is_right(run):
    return max(map(abs, ledger_errors(run).values())) <= 0.05


def print_ledgers(runs):
    """Where the pattern can be known and was told right."""
    judged = [
        run
        for run in runs
        if run.expected.decidable and run.whole.gpus and run.right(run.whole) and run.truth
    ]
    print(
        f"\n  {'ledger':24}{'runs':>6}{'all within 5':>14}{'unknown':>10}{'> 15 %':>8}  worst part, mean error in points"
    )
    good = 0
    unknown_fits = 0
    for situation in dict.fromkeys(run.situation for run in judged):
        those = [run for run in judged if run.situation == situation]
        within = sum(map(ledger_is_right, those))
        extra = [
            run.whole.ledger.get("unknown", 0.0) - run.truth.get("unknown", 0.0) for run in those
        ]
        too_much = sum(one > 0.15 for one in extra)
        unknown = statistics.mean(run.whole.ledger.get("unknown", 0.0) for run in those)
        means = collections.Counter()
        for run in those:
            for part, error in ledger_errors(run).items():
                means[part] += error / len(those)
        worst = max(means, key=lambda part: abs(means[part]))
        good += within
        unknown_fits += len(those) - too_much
        print(
            f"  {situation:24}{len(those):>6}{percent(within, len(those)):>14}{100 * unknown:>8.1f} %{too_much:>8}  {worst} {100 * means[worst]:+.1f}"
        )
    print(f"\n  {'ledger by variant':24}{'runs':>6}{'all within 5':>14}")
    for variant in dict.fromkeys(run.variant for run in judged):
        those = [run for run in judged if run.variant == variant]
        print(
            f"  {variant:24}{len(those):>6}{percent(sum(map(ledger_is_right, those)), len(those)):>14}"
        )
    if judged:
        print(f"  every part within 5 points      {percent(good, len(judged))} of {len(judged)}")
        goal("ledger: every part within 5 points in 95 % of the runs", good >= 0.95 * len(judged))
        goal(
            "ledger: not known at most 15 points more than nobody could know, in 95 %",
            unknown_fits >= 0.95 * len(judged),
        )


def print_calibration(runs):
    """Of what was said so surely, how much is right: verdicts, and codes that these situations are
    about. Each within 10 points of what it says.
    """
    verdicts, findings = collections.defaultdict(list), collections.defaultdict(list)
    bucket = lambda sure: min(9, max(0, int(sure * 10 + 1e-9)))
    for run in runs:
        if run.whole.pattern in PATTERNS[:-1]:
            verdicts[bucket(run.whole.sure)].append((run.whole.sure, run.right(run.whole)))
        for code, sure in run.whole.said:
            if code in KNOWN_CODES or run.expected.healthy:
                true = not run.expected.healthy and code not in run.expected.must_not
                findings[bucket(sure)].append((sure, true))
    print(f"\n  {'said':10}{'verdicts':>10}{'right':>9}{'':4}{'findings':>10}{'right':>9}")
    off = []
    for tenth in range(5, 10):
        line = f"  {10 * tenth}-{10 * tenth + 10} %".ljust(12)
        for name, group in (("verdicts", verdicts[tenth]), ("findings", findings[tenth])):
            right = sum(true for _, true in group)
            line += f"{len(group):>8}{percent(right, len(group)):>11}    "
            if len(group) >= 20:
                said = statistics.mean(sure for sure, _ in group)
                if abs(right / len(group) - said) > 0.1:
                    off.append(f"{name} {10 * tenth}-{10 * tenth + 10} %")
        print(line)
    goal(
        f"said as surely as it is right, within 10 points{': ' + ', '.join(off) if off else ''}",
        not off,
    )


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def times_text(runs):
    if not runs:
        return "no run was decided"
    times = [run.until_sure.duration_s for run in runs]
    after = [max(0.0, run.until_sure.duration_s - run.ready_s) for run in runs]
    return (
        f"median {statistics.median(times):5.1f} s, p90 {quantile(times, 0.9):5.1f} s "
        f"(without start-up phases: {statistics.median(after):.1f} s, {quantile(after, 0.9):.1f} s); {len(runs)} runs"
    )


def print_until_sure(runs):
    """The second pass. A run counts as stopped when lockstep left at least a second of the recording unread.

    Right at the moment of stopping means the pattern of the run: early loading on one GPU at a time must not mislead.
    """
    decided = [run for run in runs if run.until_sure.pattern in PATTERNS[:-1]]
    decidable = [run for run in runs if run.expected.decidable]
    clear = [run for run in decided if run.expected.decidable]
    stopped = [run for run in decided if run.until_sure.duration_s < run.length_s - 1]
    wrong = [run for run in stopped if not run.right(run.until_sure)]
    print("\nuntil sure")
    print(f"  decided, all:            {times_text(decided)}")
    print(f"  decided, clear patterns: {times_text(clear)}")
    for pattern in PATTERNS[:-1]:
        those = [run for run in clear if run.expected.right == pattern]
        if those:
            print(f"    {pattern:22} {times_text(those)}")
    print(
        f"  clear patterns never decided:    {percent(len(decidable) - len(clear), len(decidable))} of {len(decidable)}"
    )
    print(
        f"  wrong at the moment of stopping: {percent(len(wrong), len(stopped))} of {len(stopped)}"
    )
    for run in wrong:
        print(
            f"    {run.situation} {run.variant} {run.seed}: {run.until_sure.pattern} at {run.until_sure.duration_s:.1f} s, wanted {run.expected.right}"
        )
    # A clear run that is never decided takes for ever. Start-up has no pattern yet, so the clock
    # starts behind it.
    return (
        statistics.median(
            [
                run.until_sure.duration_s - run.ready_s
                if run.until_sure.pattern in PATTERNS[:-1]
                else math.inf
                for run in decidable
            ]
        )
        if decidable
        else None
    )


def wrong_text(run):
    words = lambda codes: " ".join(sorted(codes)) or "nothing"
    wanted = " or ".join([run.expected.right, *run.expected.accept])
    text = f"{run.situation} {run.variant} {run.seed}: got {run.whole.pattern}, wanted {wanted}; findings {words(run.whole.findings)}"
    if run.whole.suspicions:
        text += f", suspicions {words(run.whole.suspicions)}"
    if run.missed_codes():
        text += f"; missed {words(run.missed_codes())}"
    if run.false_codes():
        text += f"; false {words(run.false_codes())}{' on a healthy run' if run.expected.healthy else ''}"
    return text


def run(lockstep_binary, seeds, jobs=2, only=None, first_seed=0):
    """Generates, diagnoses, judges and prints. Returns the wrong runs."""
    runs = all_runs(lockstep_binary, seeds, jobs, only, first_seed)
    decidable = [run for run in runs if run.expected.decidable]
    print_errors(runs)
    print_confusion("where the needed signals exist", decidable)
    print_confusion(
        "where they do not, and unclear is right too",
        [run for run in runs if not run.expected.decidable],
    )
    print_patterns(decidable, runs)
    print_variants(runs)
    print_codes(runs)
    print_ledgers(runs)
    print_calibration(runs)
    median_s = print_until_sure(runs)

    accurate = sum(run.right(run.whole) for run in decidable)
    healthy = [run for run in runs if run.expected.healthy]
    alarms = sum(bool(run.false_codes()) for run in healthy)
    blind = [run for run in runs if run.variant in BUSY_ALONE]
    misled = sum(is_definitely_wrong(run, run.whole) for run in blind)
    unclear = sum(run.whole.pattern == "unclear" for run in runs)
    print(f"\n{len(runs)} runs, {seeds} seeds of each situation and variant")
    print(
        f"  pattern accuracy where the needed signals exist  {percent(accurate, len(decidable))} of {len(decidable)}"
    )
    print(
        f"  false alarms on healthy runs                     {percent(alarms, len(healthy))} of {len(healthy)}"
    )
    print(
        f"  wrong, not unclear, with busy alone              {percent(misled, len(blind))} of {len(blind)}"
    )
    print(f"  unclear, of all runs                             {percent(unclear, len(runs))}")
    if decidable:
        goal(
            "pattern accuracy >= 99 % where the needed signals exist",
            share(accurate, len(decidable)) >= 0.99,
        )
    if healthy:
        goal("false alarms on healthy runs < 1 %", share(alarms, len(healthy)) < 0.01)
    if blind:
        goal("wrong (not unclear) verdicts with busy alone < 2 %", share(misled, len(blind)) < 0.02)
    if median_s is not None:
        goal(
            "time to verdict on a clear pattern under 5 s (median, from the end of start-up)",
            median_s < 5,
        )
    wrong = [run for run in runs if run.wrong()]
    if wrong:
        print(
            f"\n{len(wrong)} runs are wrong; `python3 scripts/lib/situations.py SITUATION VARIANT SEED` makes one again"
        )
        for one in wrong:
            print(f"  {wrong_text(one)}")
    return wrong
