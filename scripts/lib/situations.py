#!/usr/bin/env python3
"""Training situations whose truth is known, as recordings: the ground of `scripts/bench accuracy`.

usage: scripts/lib/situations.py SITUATION VARIANT SEED > run.jsonl
       scripts/lib/situations.py --lanes SITUATION VARIANT SEED     the true states, and what is expected
       scripts/lib/situations.py --list

A situation is a function that fills a scene (gpu_model.py) with one run, random in everything that does not make
it what it is, and a row of what a right diagnosis says of it. The row is honest about what can be known: where the
signals of a variant cannot decide the pattern, `unclear` is right too; a different definite pattern is wrong always.
"""

import sys
from dataclasses import dataclass, replace
from functools import partial

from gpu_model import MODELS, OFF, VARIANTS, Scene, Work, lanes_text, recording
from training_loops import (
    SCRIPTS,
    bursts,
    data_parallel_steps,
    ddp,
    ddp_steps,
    every,
    load,
    one_process,
    pipeline_steps,
    rank_processes,
    solo_steps,
    some_gpus,
    spawned_processes,
    start_up,
    turn_steps,
)

ALL = tuple(name for name in VARIANTS if name not in MODELS)
NO_RANKS = ("busy_only", "no_processes")  # who is a rank of what is not known
# Codes that these situations can show. In every situation each of them is demanded, allowed or
# wrong.
KNOWN_CODES = frozenset(
    "P101 P102 P103 P104 P105 P106 D201 D202 S303 S304 C401 C406 C410 B501 B502 B503 H601 H602 H604 H605 "
    "X708 L806".split()
)


@dataclass(frozen=True)
class Expectation:
    """What is right for one run."""

    right: str  # the pattern
    accept: tuple  # patterns that are not wrong either
    decidable: bool  # the signals that the pattern needs exist
    must: frozenset  # codes that must be among the findings
    seen: frozenset  # codes that must be among findings or suspicions
    must_not: frozenset  # codes that must not be among the findings
    guess: frozenset  # untrue, and not to be told from the truth: only said with less than 60 %
    healthy: bool  # no finding at all is right
    either: frozenset  # parts of the ledger that may be told as unknown


@dataclass(frozen=True)
class Situation:
    name: str
    build: object
    right: str
    accept: tuple = ()
    must: tuple = ()
    seen: tuple = ()
    may: tuple = ()  # true as well, or a matter of taste
    guess: tuple = ()  # untrue, but nothing in the recording tells it from the truth
    # parts of the ledger that only looks at threads tell from other reasons of the host
    either: tuple = ()
    may_blind: tuple = ()  # not to be told from the truth in the variants of unclear_in
    healthy: bool = False
    unclear_in: tuple = ()  # variants that cannot decide the pattern
    # variants that cannot show the codes; None: those of unclear_in
    codes_not_in: tuple | None = None
    weak_in: tuple = ()  # variants where a suspicion is enough
    variants: tuple = ALL

    def expect(self, scene):
        variant = scene.variant_name
        decidable = variant not in self.unclear_in and not scene.blind
        lacking = self.unclear_in if self.codes_not_in is None else self.codes_not_in
        shown = variant not in lacking and not scene.blind
        weak = variant in self.weak_in
        may = set(self.may) | set(self.may_blind if variant in self.unclear_in else ())
        return Expectation(
            right=self.right,
            decidable=decidable,
            accept=tuple(
                dict.fromkeys(self.accept + scene.also + (() if decidable else ("unclear",)))
            ),
            must=frozenset(self.must if shown and not weak else ()),
            seen=frozenset((self.seen + (self.must if weak else ())) if shown else ()),
            must_not=KNOWN_CODES - set(self.must) - set(self.seen) - may,
            guess=frozenset(self.guess),
            healthy=self.healthy,
            either=frozenset(() if scene.variant.looks else self.either),
        )


SITUATIONS = {}


def situation(right, **row):
    def register(build):
        SITUATIONS[build.__name__] = Situation(build.__name__, build, right, **row)
        return build

    return register


def make(name, variant, seed):
    """(scene, expectation) of one run. The same seed is the same run in every variant, seen by
    other instruments.
    """
    scene = Scene(name, variant, seed)
    SITUATIONS[name].build(scene)
    return scene, SITUATIONS[name].expect(scene)


# ---- parts that situations share ----


def windows_resolve(scene, shortest_ms):
    """A turn shows in `busy` when it outlasts the window twice over, in 20 ms power samples from
    some 40 ms on.
    """
    if not scene.variant.power_samples and shortest_ms < 2.2 * scene.variant.window_ms:
        scene.blind = True


# ---- taking turns ----


def turns(
    scene, shares_ms, shortest_ms, *, wait_share=0.0, backward=True, memories=None, **process
):
    rng, work = scene.rng, Work(scene.rng)
    gpus = scene.add_gpus(len(shares_ms))
    start = start_up(scene, gpus, work)
    work_ms = sum(shares_ms) * (3 if backward else 1)
    wait_ms = work_ms * wait_share / (1 - wait_share)
    scene.last(rng.uniform(12, 40), work_ms + wait_ms)
    turn_steps(scene, gpus, work, start, scene.end, shares_ms, wait_ms=wait_ms, backward=backward)
    base = rng.uniform(0.3, 0.8)
    memories = memories or [base * rng.uniform(0.85, 1.15) for _ in gpus]
    one_process(scene, dict(enumerate(memories)), **process)
    windows_resolve(scene, shortest_ms)


@situation("taking-turns", must=("P101",), weak_in=("busy_only",))
def turns_long(scene):
    """Naive model parallelism, turns of 0.5 to 10 s."""
    count = scene.rng.choice((2, 2, 3, 4, 4, 8))
    if count == 2:
        turn = scene.spread(500, 10000)  # forward and backward of a GPU follow each other
        return turns(scene, [turn / 3] * 2, turn)
    backward = scene.rng.random() < 0.8  # else generation: forward only
    # 8 rounds within some 1000 GPU seconds
    forward = scene.spread(500, max(600, 42000 / count**2))
    turns(scene, [forward] * count, forward, backward=backward)


@situation("taking-turns", must=("P101",))
def turns_fast(scene):
    """Naive model parallelism, turns of 50 to 200 ms: `busy` reads the same small number on all."""
    count = scene.rng.choice((2, 2, 3, 4, 8))
    if count == 2:
        turn = scene.spread(50, 200)
        return turns(scene, [turn / 3] * 2, turn)
    forward = scene.spread(50, 120)  # the backward of a GPU in the middle takes twice that
    turns(scene, [forward] * count, forward)


@situation("taking-turns", must=("P101",))
def turns_unbalanced(scene):
    """One GPU has 70 % of the work, the others share the rest."""
    count = scene.rng.choice((2, 2, 3, 4, 8))
    small = scene.spread(50, 1000 / (count - 1))
    shares = [small] * count
    heavy = scene.rng.choice((0, 0, count - 1))
    shares[heavy] = small * (count - 1) * 0.7 / 0.3
    # Memory may follow the layers, and then looks like DataParallel's, or be even:
    # 14.0/12.2/11.9/11.9 GB at 70 % on the
    # first was seen in a real run.
    memories = (
        [0.1 + 0.7 * share / shares[heavy] for share in shares]
        if scene.rng.random() < 0.5
        else None
    )
    turns(scene, shares, small, memories=memories)


@situation("taking-turns", must=("P101",), may=("D201",), either=("input",))
def turns_input_wait(scene):
    """Turns, and 15 to 40 % of every round nothing at all: the loader is slow too."""
    count = scene.rng.choice((2, 2, 3, 4))
    forward = scene.spread(60, 700)
    turns(
        scene,
        [forward] * count,
        forward,
        wait_share=scene.rng.uniform(0.15, 0.4),
        loader_workers=2,
        workers_are_late=True,
        cpu=0.5,
    )


# ---- GPUs that people own ----


@situation("taking-turns", accept=("unclear",), must=("P101",), variants=tuple(MODELS))
def turns_on_models(scene):
    """Naive model parallelism on two or four cards, turns of 0.1 to 4 s."""
    count, turn = scene.rng.choice((2, 2, 4)), scene.spread(100, 4000)
    turns(scene, [turn / 3] * count, turn)
    scene.blind = False


@situation("in-step", healthy=True, variants=tuple(MODELS))
def ddp_on_models(scene):
    """DDP by torchrun, nothing wrong."""
    ddp(scene, some_gpus(scene, (2, 4)))


@situation("in-step", must=("D201",), variants=tuple(MODELS), weak_in=("rtx_4090", "rtx_3090"))
def starved_on_models(scene):
    """DDP whose loader is too slow."""
    ddp(
        scene,
        some_gpus(scene, (2, 4)),
        step=(100, 3000),
        starve=scene.rng.uniform(0.2, 0.6),
        processes=partial(
            rank_processes,
            cpu=scene.rng.uniform(0.1, 0.4),
            state="S",
            loader_workers=2,
            workers_are_late=True,
        ),
    )


# ---- one process leads ----


@situation("one-leads", must=("P102",), unclear_in=("no_processes",), weak_in=("busy_only",))
def data_parallel(scene):
    """nn.DataParallel: one process, GPU 0 holds 1.4 to 3 times the memory and works alone between
    the phases.
    """
    rng, work = scene.rng, Work(scene.rng)
    gpus = some_gpus(scene, (2, 3, 4, 8))
    step_ms = scene.spread(150, 2500)
    start = start_up(scene, gpus, work)
    scene.last(rng.uniform(12, 40), step_ms)
    data_parallel_steps(
        scene,
        gpus,
        work,
        start,
        scene.end,
        step_ms,
        lead=rng.uniform(0.08, 0.35),
        gap=rng.uniform(0, 0.02),
    )
    others, skew = rng.uniform(0.18, 0.32), rng.uniform(1.4, 3.0)
    one_process(scene, {gpu.index: others for gpu in gpus} | {0: min(0.9, others * skew)})
    # With windows alone the memory must speak; a pipeline's first stage may hold half as much
    # again.
    scene.blind = skew < 1.7 and not scene.variant.power_samples and not scene.gpm


# ---- healthy data parallelism ----


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_healthy(scene):
    """DDP by torchrun or accelerate, nothing wrong."""
    ddp(
        scene,
        processes=partial(
            rank_processes, launcher=scene.rng.choice(("torchrun", "torchrun", "accelerate"))
        ),
    )


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_spawn(scene):
    """DDP by mp.spawn: no RANK in the environment."""
    hidden = ddp(scene, processes=spawned_processes)
    # Then only steps that show in 20 ms power samples, behind the lag, tell that they work
    # together.
    scene.blind = hidden and (not scene.variant.power_samples or scene.step_ms < 120)


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_two_jobs(scene):
    """Two DDP jobs on one machine, each with a MASTER_PORT of its own."""
    rng = scene.rng
    first, second = (scene.add_gpus(rng.choice((2, 3, 4))) for _ in range(2))
    rank_processes(
        scene, second, rng.uniform(0.3, 0.85), command=["python3", "other/train.py", "--seed", "7"]
    )
    ddp(scene, first, step=(60, 2000))
    ddp_steps(scene, second, Work(rng), 0.0, scene.end, scene.spread(60, 2000))


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_beside_foreign(scene):
    """DDP on 2 to 4 GPUs, one or two jobs of somebody else on the rest."""
    rng = scene.rng
    ours, others = scene.add_gpus(rng.choice((2, 3, 4))), scene.add_gpus(rng.choice((1, 2)))
    for gpu in others:
        one_process(
            scene,
            {gpu.index: rng.uniform(0.1, 0.9)},
            ["python", "sweep.py", "--fold", str(gpu.index)],
            user="grace",
        )
    ddp(scene, ours)
    for gpu in others:
        solo_steps(scene, gpu, Work(rng), 0.0, scene.end, scene.spread(30, 2000))


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_evaluates_together(scene):
    """All ranks evaluate, 2 to 4 s every 10 to 15 s."""
    rng, gpus, work = scene.rng, some_gpus(scene), Work(scene.rng)
    stops = lambda now: {
        rank: (length * rng.gauss(1, 0.005), work.light, "evaluation")
        for length in [rng.uniform(2000, 4000)]
        for rank in range(len(gpus))
    }
    ddp(
        scene, gpus, work=work, step=(30, 1200), seconds=(35, 50), pause=every(scene, 10, 15, stops)
    )


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_full_but_fine(scene):
    """Memory at 90 %, power at 78 % of the limit: well used, not too full."""
    ddp(scene, memory=(0.895, 0.905), work=Work(scene.rng, power=(0.77, 0.79)))


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_compiles_first(scene):
    """The first 6 s are compilation, on GPU 0 only."""
    rng, gpus, work = scene.rng, some_gpus(scene), Work(scene.rng)
    step_ms = scene.spread(60, 2000)
    scene.began, scene.ready = scene.t0, scene.t0 + rng.uniform(5500, 6500)
    scene.last(rng.uniform(20, 40), step_ms)
    load(rng, gpus[0].lane, scene.ready, work)
    for gpu in gpus:
        gpu.lane.until(scene.ready, work.idle)
    ddp_steps(scene, gpus, work, scene.ready, scene.end, step_ms)
    rank_processes(scene, gpus, rng.uniform(0.3, 0.85))


@situation("in-step", healthy=True, unclear_in=NO_RANKS)
def ddp_run_ends(scene):
    """The run is over 5 s before the recording."""
    over = ddp(scene)
    stop = scene.over = scene.end
    for gpu in scene.gpus:
        gpu.lane.until(stop, OFF)
    for process in over:
        process.until_ms = stop
    scene.end = stop + 5000


# ---- data ----


def starved(scene, **process):
    ddp(
        scene,
        step=(100, 3000),
        starve=scene.rng.uniform(0.2, 0.6),
        processes=partial(rank_processes, **process),
    )


@situation("in-step", must=("D201",), either=("input",), unclear_in=NO_RANKS, weak_in=("busy_1s",))
def ddp_starved(scene):
    """All ranks idle together for 20 to 60 % of each step; workers exist and are too slow."""
    starved(
        scene,
        cpu=scene.rng.uniform(0.1, 0.4),
        state="S",
        loader_workers=scene.rng.choice((1, 2, 4)),
        workers_are_late=True,
        read_rate=scene.spread(1e4, 3e8),  # little where files are in the page cache
    )


@situation("in-step", must=("D202",), may=("D201",), either=("input",), unclear_in=NO_RANKS)
def ddp_no_workers(scene):
    """The same with no loader workers: the training process itself reads, a core at full load."""
    starved(
        scene, cpu=scene.rng.uniform(0.95, 1.05), loader_workers=0, read_rate=scene.spread(2e6, 3e8)
    )


def host_is_elsewhere(scene, starve, **process):
    """Holes as with a slow loader; only looks at threads tell that it is something else."""
    ddp(
        scene,
        step=(100, 3000),
        starve=starve,
        starve_part="host_code" if scene.variant.looks else "unknown",
        processes=partial(rank_processes, **process),
    )


@situation("in-step", guess=("D201", "D202"), may=("S307",), unclear_in=NO_RANKS)
def host_computes(scene):
    """No loader workers and a core at full load, as where the training process loads by itself; but
    it computes something else: a metric, a tree search.
    """
    host_is_elsewhere(
        scene,
        scene.rng.uniform(0.2, 0.6),
        cpu=scene.rng.uniform(0.95, 1.05),
        loader_workers=0,
        read_rate=scene.spread(1e3, 2e6),
    )


@situation("in-step", guess=("D201",), may=("S307",), unclear_in=NO_RANKS)
def host_waits(scene):
    """The same holes as with a slow loader, but the host sleeps in its own code: a logger, a lock."""
    host_is_elsewhere(
        scene,
        scene.rng.uniform(0.2, 0.6),
        cpu=scene.rng.uniform(0.1, 0.5),
        state="S",
        loader_workers=scene.rng.choice((2, 4, 8)),
        read_rate=scene.spread(1e3, 2e6),
    )


# ---- ranks that wait for one another ----


@situation(
    "in-step",
    must=("C401",),
    may=("D201",),
    unclear_in=NO_RANKS,
    codes_not_in=("busy_only", "busy_1s"),
    weak_in=("no_power_samples", "no_processes"),
)
def straggler_host(scene):
    """One rank's host is late by 0.2 to 2.5 steps each time: its GPU idles, and the others spin until it is done.

    Up to one step late the power of the culprit and of the others even alternates; but the others read busy all the time."""
    gpus, late = some_gpus(scene), scene.spread(0.2, 2.5)
    ddp(
        scene,
        gpus,
        step=(150, 1500),
        late={scene.rng.randrange(len(gpus)): late},
        periods=8 * (1 + late),
    )


@situation(
    "in-step",
    must=("C401",),
    unclear_in=NO_RANKS,
    codes_not_in=("busy_only", "busy_1s"),
    weak_in=("no_power_samples", "no_processes"),
)
def straggler_gpu(scene):
    """One rank computes 1.25 to 1.9 times as long, at full power, while the others spin."""
    gpus = some_gpus(scene)
    culprit, factor = scene.rng.randrange(len(gpus)), scene.rng.uniform(1.25, 1.9)
    ddp(scene, gpus, step=(150, 3000), slow=lambda rank, now: factor if rank == culprit else 1.0)


@situation(
    "in-step",
    must=("C410",),
    unclear_in=NO_RANKS,
    codes_not_in=("busy_only", "busy_1s", "no_processes"),
    weak_in=("no_power_samples",),
    may=("C401", "C402"),
)
def uneven_lengths(scene):
    """Sequence lengths differ from rank to rank and step to step: the late rank changes."""
    rng = scene.rng
    spread = rng.uniform(0.2, 0.45)

    def slow(rank, now):
        return max(0.3, rng.gauss(1, spread))

    gpus = some_gpus(scene, (2, 4, 8))
    ddp(scene, gpus, step=(150, 1500), slow=slow)


@situation(
    "in-step",
    accept=("unclear",),
    must=("C406",),
    unclear_in=NO_RANKS,
    codes_not_in=(),
    weak_in=NO_RANKS,
)
def stuck_collective(scene):
    """After 4 to 12 s one rank never arrives; the others spin for 12 to 25 s, to the end."""
    rng, gpus, work = scene.rng, some_gpus(scene), Work(scene.rng)
    processes = ddp(scene, gpus, work=work, step=(30, 1500), seconds=(4, 12), periods=3)
    missing, stop = rng.randrange(len(gpus)), scene.end
    scene.end = stop + rng.uniform(12500, 25000)
    for rank, gpu in enumerate(gpus):
        waits = rank != missing
        state, part = (work.spin, "other_rank") if waits else (work.idle, None)
        gpu.lane.until(scene.end, state, part)
    if rng.random() < 0.5:
        processes[missing].quiet = ((stop, scene.end),)


@situation("in-step", must=("S303",), may_blind=("S304", "C401"), unclear_in=NO_RANKS)
def checkpoint_stalls(scene):
    """Every 8 to 12 s rank 0 writes a checkpoint for 1 to 2 s; the others spin."""
    rng, work, writes = scene.rng, Work(scene.rng), []

    def stops(now):
        length = rng.uniform(1000, 2000)
        writes.append((now, now + length, scene.spread(8e8, 2e10)))
        return {0: (length, work.idle, "checkpoint")}

    processes = ddp(
        scene, work=work, step=(30, 1200), seconds=(40, 60), pause=every(scene, 8, 12, stops)
    )
    processes[0].writes = writes


@situation(
    "in-step", must=("S304",), may_blind=("S303", "C401"), unclear_in=NO_RANKS, weak_in=("busy_1s",)
)
def evaluation_on_one(scene):
    """Every 10 to 15 s rank 0 alone evaluates for 2 to 4 s; the others spin, nothing is written."""
    rng, work = scene.rng, Work(scene.rng)
    stops = lambda now: {0: (rng.uniform(2000, 4000), work.forward, "evaluation")}
    ddp(scene, work=work, step=(30, 1200), seconds=(45, 60), pause=every(scene, 10, 15, stops))


@situation("in-step", may=("C401",), unclear_in=NO_RANKS)
def mixed_kinds(scene):
    """Two kinds of GPU in one job: the slower ones need longer, the others wait a little."""
    count = scene.rng.choice((2, 4))
    gpus = scene.add_gpus(count, [scene.mixed[i * 2 // count] for i in range(count)])
    ddp(scene, gpus, step=(60, 2000))


# ---- pipelines ----


def pipeline(scene, ranks):
    rng, work = scene.rng, Work(scene.rng)
    gpus = some_gpus(scene, (2, 3, 4, 8))
    bubble, stages = rng.uniform(0.08, 0.30), len(gpus)
    micro_batches = max(2, round((stages - 1) * (1 - bubble) / bubble))
    step_ms = scene.spread(600, 4000)
    forward_ms = step_ms / 3 / (micro_batches + stages - 1)
    start = start_up(scene, gpus, work)
    scene.last(rng.uniform(12, 40), step_ms)
    pipeline_steps(
        scene,
        gpus,
        work,
        start,
        scene.end,
        forward_ms,
        micro_batches,
        work.spin if ranks else work.idle,
    )
    if ranks:
        rank_processes(scene, gpus, rng.uniform(0.4, 0.85))
    else:
        base = rng.uniform(0.4, 0.75)
        one_process(scene, {gpu.index: base * rng.uniform(0.9, 1.15) for gpu in gpus})
    # The stagger from the first stage to the last must outlast the instrument: 4 power samples, or
    # 3 reads of GPM.
    stagger = (stages - 1) * forward_ms
    gpm_sees = scene.gpm and scene.gpm_every == 1 and 2 * stagger > 300
    if not (scene.variant.power_samples and stagger > 80) and not gpm_sees:
        scene.blind = True
        if ranks and scene.variant.processes == "all":
            scene.also = ("in-step",)


@situation("pipeline", may=("P106",), unclear_in=("busy_only", "busy_1s", "no_processes"))
def pipeline_ranks(scene):
    """A pipeline with micro-batches, one rank a stage; bubbles of 8 to 30 % spin."""
    pipeline(scene, ranks=True)


@situation("pipeline", may=("P106",), unclear_in=("busy_only", "busy_1s", "no_processes"))
def pipeline_one_process(scene):
    """A pipeline with micro-batches in one process; bubbles of 8 to 30 % idle."""
    pipeline(scene, ranks=False)


# ---- one GPU a job ----


def solo(scene, count):
    rng, work = scene.rng, Work(scene.rng)
    gpus = scene.add_gpus(count)
    gpu = gpus[rng.choice((0, 0, count - 1))]
    step_ms = scene.spread(30, 3000)
    start = start_up(scene, [gpu], work)
    scene.last(rng.uniform(12, 40), step_ms)
    solo_steps(scene, gpu, work, start, scene.end, step_ms)
    one_process(scene, {gpu.index: rng.uniform(0.3, 0.9)})


@situation("single-gpu", must=("P103",), weak_in=("no_processes",))
def single_beside_idle(scene):
    """One job on one GPU; the others hold no process and no memory."""
    solo(scene, scene.rng.choice((2, 3, 4, 8)))


@situation("single-gpu", healthy=True)
def single_alone(scene):
    """One job on the only GPU."""
    solo(scene, 1)


def separate_jobs(scene, commands, memories, **process):
    gpus = scene.add_gpus(len(commands))
    scene.last(scene.rng.uniform(12, 40), 2500)
    step_ms = scene.spread(30, 2500)
    for gpu, command, memory in zip(gpus, commands, memories):
        own_step = step_ms * scene.rng.uniform(0.97, 1.03) if process else scene.spread(30, 2500)
        solo_steps(
            scene,
            gpu,
            Work(scene.rng),
            0.0,
            scene.end,
            own_step,
            gap=scene.rng.uniform(0.005, 0.03),
        )
        one_process(scene, {gpu.index: memory}, command, parent_pid=scene.pid(), **process)


@situation("independent", healthy=True, unclear_in=NO_RANKS)
def independent_jobs(scene):
    """Two to four jobs with different commands, a GPU each."""
    count = scene.rng.choice((2, 3, 4))
    commands = [
        *SCRIPTS,
        ["python", "sweep.py", "--lr", "1e-3"],
        ["python", "sweep.py", "--lr", "1e-4"],
    ]
    separate_jobs(
        scene,
        scene.rng.sample(commands, count),
        [scene.rng.uniform(0.1, 0.9) for _ in range(count)],
    )


@situation("independent", must=("P105",), unclear_in=NO_RANKS)
def same_command_each(scene):
    """The same command once a GPU with no rank and no world size: as many separate models."""
    count, memory = scene.rng.choice((2, 3, 4, 8)), scene.rng.uniform(0.3, 0.85)
    separate_jobs(scene, [scene.rng.choice(SCRIPTS)] * count, [memory] * count, loader_workers=4)


@situation("independent", accept=("unclear",), healthy=True, unclear_in=NO_RANKS)
def inference_server(scene):
    """A server a GPU, requests at random."""
    rng, gpus = scene.rng, some_gpus(scene, (2, 3, 4, 8))
    scene.last(rng.uniform(15, 40))
    style = rng.choice(
        (
            ["vllm", "serve", "meta-llama/Llama-3.1-8B"],
            ["uvicorn", "app:app", "--host", "0.0.0.0"],
            [
                "python3",
                "-m",
                "vllm.entrypoints.openai.api_server",
                "--model",
                "mistralai/Mistral-7B-v0.1",
            ],
        )
    )
    own_port, load_share = rng.random() < 0.5, rng.uniform(0.15, 0.7)
    for gpu in gpus:
        bursts(scene, gpu, Work(rng), 0.0, scene.end, min(0.8, load_share * rng.uniform(0.8, 1.2)))
        command = style + (["--port", str(8000 + gpu.index)] if own_port else [])
        one_process(
            scene,
            {gpu.index: 0.88},
            command,
            cpu=rng.uniform(0.2, 1.0),
            loader_workers=0,
            read_rate=0.0,
            environment={"CUDA_VISIBLE_DEVICES": str(gpu.index)},
            libraries=("torch", "vllm") if "vllm" in " ".join(style) else ("torch",),
        )


@situation(
    "in-step",
    accept=("unclear", "single-gpu"),
    must=("P104",),
    may=("P103", "C401"),
    unclear_in=NO_RANKS,
)
def two_ranks_one_gpu(scene):
    """Ranks 0 and 1 both chose GPU 0; GPU 1 is empty."""
    rng, gpus, work = scene.rng, some_gpus(scene, (3, 4, 8)), Work(scene.rng)
    used = [gpus[0]] + gpus[2:]
    places = [0, 0] + [gpu.index for gpu in gpus[2:]]
    processes = lambda scene, gpus, memory: rank_processes(scene, gpus, memory, places=places)
    ddp(
        scene,
        used,
        work=work,
        memory=(0.2, 0.45),
        step=(100, 2000),
        processes=processes,
        slow=lambda rank, now: 1.9 if rank == 0 else 1.0,
    )


# ---- whose a GPU is ----

KNOWN_PROCESSES = tuple(name for name in ALL if name not in NO_RANKS)


@situation("in-step", healthy=True, variants=KNOWN_PROCESSES)
def contexts_on_the_first(scene):
    """Every other rank leaves a context of 0.4 to 1.4 GB on GPU 0."""
    for process in ddp(scene, some_gpus(scene, (2, 4, 8)), memory=(0.3, 0.8))[1:]:
        process.gpus = {0: int(scene.rng.uniform(0.4e9, 1.4e9)), **process.gpus}


@situation(
    "in-step",
    accept=("unclear", "single-gpu"),
    must=("P104",),
    may=("P103",),
    variants=KNOWN_PROCESSES,
)
def all_ranks_on_the_first(scene):
    """cuda:0 in every rank: all on GPU 0, the others empty."""
    rng, work = scene.rng, Work(scene.rng)
    gpus = scene.add_gpus(rng.choice((2, 4)))
    scene.last(rng.uniform(12, 30))
    solo_steps(scene, gpus[0], work, 0.0, scene.end, scene.spread(60, 1500))
    rank_processes(scene, gpus, rng.uniform(0.1, 0.2), places=[0] * len(gpus))


@situation("in-step", accept=("unclear",), healthy=True, variants=KNOWN_PROCESSES)
def tensor_parallel_server(scene):
    """One server over all GPUs: requests come and go, all work on each."""
    rng, gpus, work = scene.rng, some_gpus(scene, (2, 4, 8)), Work(scene.rng)
    scene.last(rng.uniform(15, 40))
    now, parent = 0.0, scene.pid()
    while now < scene.end:
        idle = now + rng.expovariate(1 / 900)
        busy = idle + rng.expovariate(1 / 700)
        for gpu in gpus:
            gpu.lane.until(idle, work.idle)
            gpu.lane.until(busy, work.light)
        now = busy
    title = rng.choice(("VLLM::Worker_TP{}", "sglang::scheduler_TP{}"))
    for rank, gpu in enumerate(gpus):
        one_process(
            scene,
            {gpu.index: 0.9},
            [title.format(rank)],
            parent_pid=parent,
            loader_workers=0,
            cpu=1.0,
            environment=None,
        )


@situation("independent", healthy=True, variants=KNOWN_PROCESSES)
def other_users_jobs(scene):
    """Different commands of other users on different GPUs: their environment cannot be read."""
    count = scene.rng.choice((2, 3, 4))
    commands = [["python", f"run_{name}.py"] for name in ("a", "b", "c", "d")][:count]
    separate_jobs(scene, commands, [scene.rng.uniform(0.3, 0.8)] * count, environment=None)


@situation("independent", accept=("unclear",), healthy=True, variants=NO_RANKS)
def strangers_that_start_together(scene):
    """Jobs of strangers that were started at the same moment, a GPU each, alike in memory."""
    rng, gpus = scene.rng, scene.add_gpus(scene.rng.choice((2, 3, 4)))
    scene.began = scene.ready = scene.t0 + rng.uniform(2000, 4000)
    scene.last(rng.uniform(15, 40), 2000)
    memory = rng.uniform(0.3, 0.85)
    for gpu in gpus:
        work = Work(rng)
        gpu.lane.until(scene.ready, OFF)
        solo_steps(scene, gpu, work, scene.ready, scene.end, scene.spread(30, 2000))
        one_process(scene, {gpu.index: memory * rng.uniform(0.95, 1.05)}, parent_pid=scene.pid())


# ---- waits that end, and one that does not ----


@situation(
    "in-step", accept=("unclear",), must=("C406",), codes_not_in=("busy_only",), weak_in=NO_RANKS
)
def stuck_from_the_start(scene):
    """Met when it was already stuck: every GPU at 100 % and the power of waiting, to the end."""
    gpus, work = some_gpus(scene, (2, 4, 8)), Work(scene.rng)
    scene.last(scene.rng.uniform(20, 40))
    for gpu in gpus:
        gpu.lane.until(scene.end, work.spin, "other_rank")
    rank_processes(scene, gpus, scene.rng.uniform(0.3, 0.8))


@situation("in-step", accept=("unclear",), may=("S304", "C401", "S303"), unclear_in=NO_RANKS)
def waits_that_end(scene):
    """Rollouts or a slow save: every half minute all but one wait 11 to 14 s for it."""
    rng, work = scene.rng, Work(scene.rng)
    stops = lambda now: {0: (rng.uniform(11000, 14000), work.idle, "other_rank")}
    ddp(scene, work=work, step=(60, 1200), seconds=(90, 110), pause=every(scene, 26, 34, stops))


# ---- nothing runs ----


@situation("idle", healthy=True)
def all_idle(scene):
    """No process anywhere."""
    some_gpus(scene)
    scene.last(scene.rng.uniform(12, 25))


@situation("idle", healthy=True)
def idle_holding_memory(scene):
    """A notebook holds memory on all GPUs and does nothing."""
    gpus, work = some_gpus(scene, (2, 3, 4, 8)), Work(scene.rng)
    scene.last(scene.rng.uniform(12, 25))
    for gpu in gpus:
        gpu.lane.until(scene.end, work.idle, "unused")
    one_process(
        scene,
        {gpu.index: scene.rng.uniform(0.1, 0.8) for gpu in gpus},
        ["python3", "-m", "ipykernel_launcher", "-f", "kernel.json"],
        cpu=0.01,
        state="S",
        loader_workers=0,
        read_rate=0.0,
    )


# ---- hardware ----


@situation(
    "in-step",
    must=("H602",),
    may=("C401", "H601"),
    unclear_in=NO_RANKS,
    codes_not_in=("busy_only",),
)
def thermal_throttle(scene):
    """One GPU is too hot for 40 % of the time: lower clocks, the others wait."""
    gpus = some_gpus(scene)
    hot = scene.rng.randrange(len(gpus))
    gpus[hot].throttled = [(begin, begin + 2000) for begin in range(0, 90000, 5000)]
    slow = lambda rank, now: 1.4 if rank == hot and now % 5000 < 2000 else 1.0
    ddp(scene, gpus, step=(60, 1500), slow=slow, slow_part="slowed")


@situation("in-step", seen=("H601",), unclear_in=NO_RANKS, codes_not_in=("busy_only",))
def power_capped(scene):
    """A power limit of 70 % of the maker's holds all clocks at 72 %."""
    gpus = some_gpus(scene)
    for gpu in gpus:
        gpu.limit_kept = 0.7
        gpu.kind = replace(gpu.kind, limit_w=gpu.limit_kept * gpu.kind.limit_w)
        gpu.power_capped, gpu.power_factor = True, scene.rng.uniform(0.99, 1.0)
    ddp(scene, gpus, work=Work(scene.rng, power=(0.98, 1.0)))


@situation("in-step", must=("H604",), unclear_in=NO_RANKS, codes_not_in=("busy_only",))
def xid_event(scene):
    """The driver reports an ECC or link error; the job goes on."""
    gpus = some_gpus(scene)
    ddp(scene, gpus)
    when = scene.t0 + (scene.end - scene.t0) * scene.rng.uniform(0.3, 0.8)
    scene.events.append(
        (when, "xid", scene.rng.randrange(len(gpus)), scene.rng.choice(("48", "63", "74", "94")))
    )


@situation(
    "in-step",
    accept=("unclear",),
    must=("H605",),
    may=("H604", "C406", "C401", "P103"),
    unclear_in=NO_RANKS,
    codes_not_in=("busy_only",),
)
def lost_gpu(scene):
    """A GPU falls off the bus; the others wait for it in a collective."""
    rng, gpus, work = scene.rng, some_gpus(scene), Work(scene.rng)
    ddp(scene, gpus, work=work, seconds=(8, 20), step=(30, 1500))
    lost, stop = rng.choice(gpus), scene.end
    scene.end = stop + rng.uniform(4000, 8000)
    lost.lost_ms = stop
    scene.events.append((stop, "lost", lost.index, "GPU is lost"))
    for gpu in gpus:
        state, part = (OFF, None) if gpu is lost else (work.spin, "other_rank")
        gpu.lane.until(scene.end, state, part)


# ---- batch, memory, configuration ----


@situation("in-step", seen=("B502",), unclear_in=NO_RANKS, codes_not_in=())
def memory_nearly_full(scene):
    """Memory at 99 %."""
    ddp(scene, memory=(0.988, 0.993))


@situation("in-step", must=("B503",), may=("B501",), variants=("full",))
def tensor_cores_unused(scene):
    """SMs at 80 %, tensor cores at nothing: fp32 with TF32 off."""
    ddp(scene, work=Work(scene.rng, sm=(0.78, 0.84), tensor=(0.0, 0.0)))


@situation("in-step", must=("B501",), variants=("full",))
def small_batch(scene):
    """Busy 95 %, SMs at 20 %, memory at 10 %, power at 35 %: the GPU could take far more at a
    time.
    """
    ddp(
        scene,
        memory=(0.09, 0.11),
        step=(30, 400),
        gap=0.03,
        exposed=0.02,
        work=Work(
            scene.rng, power=(0.27, 0.33), sm=(0.18, 0.23), tensor=(0.05, 0.08), dram=(0.08, 0.15)
        ),
    )


@situation("in-step", must=("X708",), may=("D201", "B501"), unclear_in=NO_RANKS)
def launch_blocking(scene):
    """CUDA_LAUNCH_BLOCKING=1: every launch is waited for, gaps everywhere."""
    # Short steps stand for gaps that are spread over the whole of a step.
    ddp(
        scene,
        step=(30, 120),
        gap=scene.rng.uniform(0.15, 0.35),
        gap_part="launching",
        work=Work(scene.rng, power=(0.4, 0.6), sm=(0.45, 0.6)),
        processes=partial(rank_processes, environment={"CUDA_LAUNCH_BLOCKING": "1"}),
    )


@situation(
    "in-step",
    accept=("unclear",),
    must=("L806",),
    may=("C406", "C401", "P103"),
    unclear_in=NO_RANKS,
)
def ranks_missing(scene):
    """WORLD_SIZE and LOCAL_WORLD_SIZE say 4, three ranks were started and spin."""
    gpus, work = scene.add_gpus(4), Work(scene.rng)
    scene.last(scene.rng.uniform(14, 30))
    for gpu in gpus[:3]:
        gpu.lane.until(scene.end, work.spin, "other_rank")
    rank_processes(
        scene, gpus, scene.rng.uniform(0.03, 0.2), places=[0, 1, 2], world=4, launcher="environment"
    )


def list_text():
    out = []
    for row in SITUATIONS.values():
        codes = " ".join([*row.must, *(f"{code} (or suspected)" for code in row.seen)]) or (
            "healthy" if row.healthy else "-"
        )
        out.append(f"{row.name:24} {row.right:13} {codes:22} {row.build.__doc__.splitlines()[0]}")
        if row.variants != ALL:
            out.append(f"{'':24} only {', '.join(row.variants)}")
        elif row.unclear_in:
            out.append(f"{'':24} unclear is right too in {', '.join(row.unclear_in)}")
    return "\n".join(out + ["", "variants: " + ", ".join(VARIANTS)])


def main(arguments):
    lanes = "--lanes" in arguments
    words = [word for word in arguments if word != "--lanes"]
    if words == ["--list"]:
        print(list_text())
        return
    if (
        len(words) != 3
        or words[0] not in SITUATIONS
        or words[1] not in VARIANTS
        or not words[2].isdigit()
    ):
        sys.exit(
            f"situations: error: {' '.join(arguments) or 'nothing'} is not [--lanes] SITUATION VARIANT SEED\n"
            "  next: run scripts/lib/situations.py --list"
        )
    scene, expectation = make(words[0], words[1], int(words[2]))
    if lanes:
        print(lanes_text(scene))
        print(expectation)
    else:
        sys.stdout.write(recording(scene))


if __name__ == "__main__":
    main(sys.argv[1:])
