"""How the kinds of training fill the lanes of their GPUs (gpu_model.py), and the processes they show.

Every loop appends states to lanes from `start` until `end`; lanes may run past the end by one step.
"""

from gpu_model import GIB, OFF, Process, Work

SCRIPTS = (
    ["python3", "train.py", "--config", "base.yaml"],
    ["python", "-u", "finetune.py", "--lr", "2e-5", "--bf16"],
    ["/opt/conda/bin/python", "main.py", "--model", "vit_b_16"],
    ["python3", "-m", "nanogpt.train", "--batch-size", "32"],
)


# ---- before the first step ----


def start_up(scene, gpus, work):
    """Half of the runs are met while they train. The others begin with up to 4 s of idling and loading, one GPU
    after the other, as `model.to(device)` and compilation do. Returns when the first step begins."""
    rng = scene.rng
    if rng.random() < 0.5:
        return 0.0
    length = rng.uniform(500, 4000)
    begin = scene.t0 + length * rng.uniform(0.1, 0.4)
    scene.ready = scene.t0 + length
    turn = (scene.ready - begin) / len(gpus)
    for place, gpu in enumerate(gpus):
        gpu.lane.until(begin, OFF)
        gpu.lane.until(begin + place * turn, work.idle)
        load(rng, gpu.lane, begin + (place + 1) * turn, work)
        gpu.lane.until(scene.ready, work.idle)
    scene.began = begin
    return scene.ready


def load(rng, lane, end, work):
    """Copies with short bursts of kernels between: initialisation, autotuning, the first
    compilation.
    """
    while lane.now < end:
        lane.until(min(end, lane.now + rng.uniform(20, 120)), work.copy)
        lane.until(min(end, lane.now + rng.uniform(10, 90)), work.light)


def phases(scene, processes):
    """Processes of a job that starts within the recording take their GPUs and their memory as it
    does.
    """
    for process in processes:
        if scene.ready > scene.t0:
            process.from_ms, process.ready_ms = scene.began, scene.ready
    scene.processes += processes
    return processes


# ---- the loops ----


def ddp_steps(
    scene,
    gpus,
    work,
    start,
    end,
    step_ms,
    *,
    gap=0.02,
    exposed=0.03,
    starve=0.0,
    late=None,
    slow=None,
    pause=None,
    gap_part="unknown",
    starve_part="input",
    slow_part="other_rank",
):
    """Data-parallel ranks: host gap, forward and backward, then all wait for the last in the all-
    reduce and spin.

    gap, exposed, starve: shares of the step (host work, collective that nothing hides, waiting for
    data).
    late: {rank: share of a step for which its host is late}; slow(rank, t): factor on its compute
    time;
    pause(t): {rank: (ms, state, what the others wait for)} before the step that begins at t.
    gap_part, slow_part: whose time the host's gap is, and the waiting for a slow rank.
    """
    gauss, late = scene.rng.gauss, late or {}
    compute_ms = step_ms * (1 - gap - exposed - starve)
    now = start
    while now < end:
        common = gauss(1, 0.015)
        stops = pause(now) if pause else {}
        last = now
        longest_stop = max((stop[0] for stop in stops.values()), default=0.0)
        for rank, gpu in enumerate(gpus):
            lane, at = gpu.lane, now
            if rank in stops:
                length, state, part = stops[rank]
                at += length
                lane.until(at, state, None if state[0] or part == "other_rank" else part)
            at += step_ms * gap * common
            lane.until(at, work.idle, gap_part)
            if starve:
                at += step_ms * starve * max(0.1, gauss(1, 0.06)) * common
            lane.until(at, work.idle, starve_part)
            if rank in late:
                at += step_ms * late[rank] * max(0.2, gauss(1, 0.15))
            lane.until(at, work.idle)
            length = compute_ms * common * gauss(1, 0.006) / gpu.kind.speed
            factor = slow(rank, at) if slow else 1.0
            lane.until(at + length * factor / 3, work.forward)
            if slow_part == "slowed":  # what it works longer than it would at its usual clock
                lane.until(at + length, work.backward)
            length *= factor
            lane.until(at + length, work.backward, "slowed" if slow_part == "slowed" else None)
            last = max(last, at + length)
        now = last + step_ms * exposed
        for rank, gpu in enumerate(gpus):
            if stops and rank not in stops:
                part = next(iter(stops.values()))[2]
                gpu.lane.until(min(last, gpu.lane.now + longest_stop), work.spin, part)
            gpu.lane.until(last, work.spin, slow_part)
            gpu.lane.until(now, work.spin, "link")


def turn_steps(scene, gpus, work, start, end, shares_ms, *, wait_ms=0.0, backward=True):
    """Naive model parallelism: activations go from GPU to GPU and gradients come back; one works, the others idle.

    shares_ms: forward time on each GPU; backward takes twice that. The first GPU's backward and its next forward
    follow each other, as do the last one's forward and backward.
    """
    gauss, now = scene.rng.gauss, start
    order = list(range(len(gpus)))
    while now < end:
        legs = [(i, shares_ms[i], work.forward) for i in order]
        if backward:
            legs += [(i, 2 * shares_ms[i], work.backward) for i in reversed(order)]
        for gpu in gpus:
            gpu.lane.until(now, work.idle, "turn")
        now += wait_ms * max(0.1, gauss(1, 0.1))
        for gpu in gpus:
            gpu.lane.until(now, work.idle, "input")
        for i, length, state in legs:
            lane = gpus[i].lane
            lane.until(now, work.idle, "turn")
            now += length * gauss(1, 0.03)
            lane.until(now, state)
            # the hand-over: a copy of some tens of MB, nothing runs
            now += max(0.3, gauss(1.5, 0.5))
    for gpu in gpus:
        gpu.lane.until(now, work.idle, "turn")


def data_parallel_steps(scene, gpus, work, start, end, step_ms, lead, gap):
    """nn.DataParallel: scatter and replicate from GPU 0, all compute, GPU 0 alone gathers, reduces and steps.

    lead: share of the step in which GPU 0 works alone. The others idle then: no collective holds them.
    """
    gauss, now = scene.rng.gauss, start
    parallel_ms = step_ms * (1 - lead - gap)
    while now < end:
        common = gauss(1, 0.02)
        now += step_ms * gap * common
        parts = (
            (0.2 * lead * step_ms, parallel_ms / 3, work.forward),
            (0.3 * lead * step_ms, parallel_ms * 2 / 3, work.backward),
        )
        for alone_ms, together_ms, state in parts:
            scatter = now + alone_ms * common
            gpus[0].lane.until(now, work.idle)
            gpus[0].lane.until(scatter, work.light)
            now = scatter
            for gpu in gpus:
                gpu.lane.until(scatter, work.idle, "turn")
                done = scatter + together_ms * common * gauss(1, 0.01)
                gpu.lane.until(done, state)
                now = max(now, done)
        gpus[0].lane.until(now, work.idle, "turn")
        now += 0.5 * lead * step_ms * common  # reduce and optimizer
        gpus[0].lane.until(now, work.light)
    for gpu in gpus:
        gpu.lane.until(now, work.idle)


def pipeline_steps(scene, gpus, work, start, end, forward_ms, micro_batches, waiting):
    """GPipe: stage s begins s forwards after the first, and the backwards come back the other way round.

    Bubble: (n - 1) / (m + n - 1). waiting: spin (ranks in an NCCL receive) or idle (one process).
    """
    gauss, now, stages = scene.rng.gauss, start, len(gpus)
    while now < end:
        f = forward_ms * gauss(1, 0.02)
        turn = now + (micro_batches + stages - 1) * f
        last = turn + (micro_batches + stages - 1) * 2 * f
        for s, gpu in enumerate(gpus):
            lane, first, back = gpu.lane, now + s * f, turn + (stages - 1 - s) * 2 * f
            lane.until(first, waiting, "turn")
            lane.until(first + micro_batches * f * gauss(1, 0.004), work.forward)
            lane.until(back, waiting, "turn")
            lane.until(back + micro_batches * 2 * f, work.backward)
            lane.until(last, waiting, "turn")
        now = last + 0.3 * f
        for gpu in gpus:
            gpu.lane.until(now, work.light)


def solo_steps(scene, gpu, work, start, end, step_ms, gap=0.02):
    """One GPU that waits for nobody."""
    gauss, now, lane = scene.rng.gauss, start, gpu.lane
    while now < end:
        length = step_ms * gauss(1, 0.03)
        now += length * gap
        lane.until(now, work.idle)
        lane.until(now + length * 0.33, work.forward)
        now += length * (1 - gap)
        lane.until(now, work.backward)


def bursts(scene, gpu, work, start, end, load_share):
    """A server: requests arrive at random, a burst of kernels each."""
    rng, lane, now = scene.rng, gpu.lane, start
    mean_ms = scene.spread(80, 1500)
    while now < end:
        now += rng.expovariate(1 / (mean_ms * (1 / load_share - 1)))
        lane.until(now, work.idle)
        now += rng.expovariate(1 / mean_ms)
        lane.until(now, work.light if rng.random() < 0.5 else work.backward)


# ---- the processes ----


def rank_processes(
    scene, gpus, memory, *, launcher="torchrun", command=None, places=None, world=None, **more
):
    """One process a rank. places: the GPU index of each rank (default: in order); world: what
    WORLD_SIZE says.
    """
    rng = scene.rng
    places = places or [gpu.index for gpu in gpus]
    world, parent, port = world or len(places), scene.pid(), str(rng.randrange(20000, 40000))
    command = command or rng.choice(SCRIPTS)
    share, cpu = rng.uniform(0.995, 1.0), more.pop("cpu", rng.uniform(0.9, 1.1))
    extra = more.pop("environment", {})
    out = []
    for rank, index in enumerate(places):
        environment = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "LOCAL_WORLD_SIZE": str(world),
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": port,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "OMP_NUM_THREADS": "1",
            **extra,
        }
        size = memory * (1.0 if rank == 0 else share) * scene.gpus[index].kind.memory_bytes
        out.append(
            Process(
                scene.pid(),
                {index: int(size)},
                command,
                parent,
                launcher,
                rank,
                rank,
                world,
                cpu=cpu,
                environment=environment,
                libraries=("torch", "nccl"),
                **more,
            )
        )
    return phases(scene, out)


def spawned_processes(scene, gpus, memory):
    """mp.spawn: the children set RANK after they start, so /proc does not show it; a recorder knows them by their
    place among their siblings. Where the parent itself holds a GPU (every fourth run) not even that is known."""
    rng, parent = scene.rng, scene.pid()
    hidden = rng.random() < 0.25
    out = []
    for rank, gpu in enumerate(gpus):
        code = f"from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd={5 + rank}, pipe_handle={7 + 2 * rank})"
        known = (
            dict(launcher="python")
            if hidden
            else dict(launcher="mp.spawn", rank=rank, local_rank=rank, world_size=len(gpus))
        )
        out.append(
            Process(
                scene.pid(),
                {gpu.index: scene.memory(memory)},
                ["/usr/bin/python3", "-c", code, "--multiprocessing-fork"],
                parent,
                libraries=("torch", "nccl"),
                **known,
            )
        )
    if hidden:
        out.append(
            Process(
                parent,
                {gpus[0].index: int(0.5 * GIB)},
                ["python3", "train.py"],
                cpu=0.02,
                state="S",
                loader_workers=0,
            )
        )
    phases(scene, out)
    return hidden


def one_process(scene, memories, command=None, **more):
    """One process on several GPUs. memories: {index: share of the GPU's memory}."""
    sizes = {
        index: int(share * scene.gpus[index].kind.memory_bytes) for index, share in memories.items()
    }
    command = command or scene.rng.choice(SCRIPTS)
    return phases(scene, [Process(scene.pid(), sizes, command, **more)])[0]


# ---- a whole job ----


def some_gpus(scene, counts=(2, 3, 4, 8, 16), weights=(30, 10, 30, 22, 8)):
    return scene.add_gpus(scene.rng.choices(counts, weights[: len(counts)])[0])


def ddp(
    scene,
    gpus=None,
    *,
    step=(30, 3000),
    seconds=(12, 40),
    work=None,
    memory=(0.3, 0.85),
    processes=rank_processes,
    periods=8,
    **loop,
):
    """Data-parallel training; what is given is what the situation is about. Returns its
    processes.
    """
    rng = scene.rng
    gpus = gpus or some_gpus(scene)
    work = work or Work(rng)
    step_ms = scene.spread(*step)
    scene.step_ms = step_ms
    start = start_up(scene, gpus, work)
    scene.last(rng.uniform(*seconds), step_ms, periods)
    for name, low, high in (("gap", 0.005, 0.03), ("exposed", 0.01, 0.035)):
        loop.setdefault(name, rng.uniform(low, high))
    ddp_steps(scene, gpus, work, start, scene.end, step_ms, **loop)
    return processes(scene, gpus, rng.uniform(*memory))


def every(scene, low_s, high_s, stops):
    """A pause for ddp_steps: stops(t) each low to high seconds, first after 3 to 6 s of the
    recording.
    """
    due = [scene.t0 + scene.rng.uniform(3000, 6000)]
    gap_ms = scene.rng.uniform(low_s, high_s) * 1000

    def pause(now):
        if now < due[0]:
            return {}
        due[0] = now + gap_ms
        return stops(now)

    return pause
