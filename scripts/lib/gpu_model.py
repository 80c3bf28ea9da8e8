"""What GPUs do over time, and what NVML would show of it: the physics under scripts/lib/situations.py.

A scene holds one lane a GPU: intervals of true states (computing, spinning in a collective, copying, idle), exact in
time. A recording (docs/formats/recording.md) is derived from them the way the driver's instruments see them:

    busy              share of the window (200 ms, older GPUs 1 s) ending at the tick in which a kernel ran, in whole percent
    power samples     means over 20 ms, behind a first-order lag of 10 to 25 ms, with noise; read in batches every 2 s
    power_mw          mean over 1 s; at once on GA100 and older
    sm, tensor, dram  means since the last read, at 10 Hz or 1 Hz; Hopper and later only
    looks             what the main thread and the loader's workers did, at some twenty moments a second

The same scene is seen by different instruments (VARIANTS). Nothing here knows how lockstep decides.
"""

import bisect
import json
import math
import random
from dataclasses import dataclass, field

GIB = 1 << 30
TICK_MS = 100.0
PROCESS_TICKS = 20  # from one list of processes to the next
POWER_SAMPLE_MS = 20.0  # an H200's, by its own time stamps


@dataclass(frozen=True)
class Kind:
    """A model of GPU. idle_w: no context on it; the dynamic range is what lies between idle_w and
    limit_w.
    """

    name: str
    memory_bytes: int
    idle_w: float
    limit_w: float
    clock_mhz: int
    power_window_ms: int = 1000  # 0: nvmlDeviceGetPowerUsage is instantaneous (GA100 and older)
    speed: float = 1.0  # only where two kinds share a job


HOPPER = (
    Kind("NVIDIA H100 80GB HBM3", 80 * GIB, 70, 700, 1980),
    Kind("NVIDIA H200", 140 * GIB, 75, 700, 1980),
)
BEFORE_HOPPER = (
    Kind("NVIDIA A100-SXM4-80GB", 80 * GIB, 52, 400, 1410, power_window_ms=0),
    Kind("NVIDIA GeForce RTX 4090", 24 * GIB, 22, 450, 2520),
    Kind("NVIDIA GeForce RTX 3090", 24 * GIB, 26, 350, 1695),
    Kind("NVIDIA L4", 23 * GIB, 16, 72, 2040),
    Kind("Tesla V100-SXM2-32GB", 32 * GIB, 42, 300, 1530, power_window_ms=0),
)
# Two kinds in one machine: the second is slower.
MIXED_HOPPER = (HOPPER[0], Kind("NVIDIA H100 PCIe", 80 * GIB, 48, 350, 1755, speed=0.8))
MIXED_BEFORE = (
    BEFORE_HOPPER[1],
    Kind("NVIDIA GeForce RTX 3090", 24 * GIB, 26, 350, 1695, speed=0.75),
)


@dataclass(frozen=True)
class Variant:
    """Which instruments there are. processes: all, pids (which pid on which GPU and no more) or
    none.
    """

    gpm: bool
    power_samples: bool
    processes: str = "all"
    window_ms: int = 200
    clocks: bool = True  # clocks, limits, temperature, events
    looks: bool = False  # what the host's threads do: not in recordings of older versions
    kind: Kind | None = None  # of one model that people own


VARIANTS = {
    "full": Variant(gpm=True, power_samples=True, looks=True),
    "no_looks": Variant(gpm=True, power_samples=True),
    "no_gpm": Variant(gpm=False, power_samples=True),
    "no_power_samples": Variant(gpm=True, power_samples=False),
    "busy_only": Variant(gpm=False, power_samples=False, processes="pids", clocks=False),
    "busy_1s": Variant(gpm=False, power_samples=False, window_ms=1000),
    "no_processes": Variant(gpm=True, power_samples=True, processes="none"),
}

# GPUs that people own, each with the instruments that are documented or measured for it, as the virtual
# driver has them (src/virtual_nvml/gpu_model.cpp names the sources).
MODELS = {
    "h100": Variant(gpm=True, power_samples=True, looks=True, kind=HOPPER[0]),
    "a100_40gb": Variant(
        gpm=False,
        power_samples=False,
        window_ms=167,
        kind=Kind("NVIDIA A100-SXM4-40GB", 40 * GIB, 50, 400, 1410, power_window_ms=0),
    ),
    "rtx_4090": Variant(gpm=False, power_samples=False, window_ms=1000, kind=BEFORE_HOPPER[1]),
    "rtx_3090": Variant(gpm=False, power_samples=False, window_ms=1000, kind=BEFORE_HOPPER[2]),
}
VARIANTS |= MODELS

# A state: (a kernel runs, power as share of the dynamic range, SM, tensor and DRAM activity).
OFF = (0.0, 0.0, 0.0, 0.0, 0.0)  # no context: deep idle


class Work:
    """The states that one job goes through on its GPUs, as drawn for one run."""

    def __init__(
        self, rng, power=(0.60, 0.85), sm=(0.75, 0.95), tensor=(0.25, 0.55), dram=(0.3, 0.65)
    ):
        level, active = rng.uniform(*power), rng.uniform(*sm)
        tensor_active, dram_active = rng.uniform(*tensor), rng.uniform(*dram)
        # a context keeps the clocks up: an idle H100 in P0 draws some 50 W more
        idle = rng.uniform(0.05, 0.10)
        self.idle = (0.0, idle, 0.0, 0.0, 0.0)
        # copy engines run no kernel, so they are not "busy"
        self.copy = (0.0, idle + 0.04, 0.0, 0.0, 0.08)
        self.forward = (
            1.0,
            level * rng.uniform(0.88, 0.97),
            active * 0.96,
            tensor_active * 0.95,
            dram_active,
        )
        self.backward = (1.0, level, active, tensor_active, dram_active)
        self.light = (
            1.0,
            level * rng.uniform(0.45, 0.6),
            active * 0.6,
            tensor_active * 0.2,
            dram_active * 0.8,
        )
        # NCCL holds some 16 to 32 blocks, of 132 SMs, while it polls.
        self.spin = (1.0, rng.uniform(0.15, 0.30), rng.uniform(0.10, 0.22), 0.0, 0.02)


class Lane:
    """One GPU's states, one after the other, from 0 on."""

    def __init__(self):
        self.ends, self.states, self.parts, self.now = [], [], [], 0.0

    def until(self, end_ms, state, part=None):
        """part: whose time it is, by the names of the ledger (docs/ledger.md)."""
        if end_ms > self.now:
            self.ends.append(end_ms)
            self.states.append(state)
            self.parts.append(part or ("working" if state[0] else "unknown"))
            self.now = end_ms

    def shares(self, from_ms, to_ms):
        """The true ledger of this GPU between two moments."""
        out, begin = {}, 0.0
        for end, part in zip(self.ends, self.parts):
            length = min(end, to_ms) - max(begin, from_ms)
            if length > 0:
                out[part] = out.get(part, 0.0) + length / (to_ms - from_ms)
            begin = end
        return out

    def at(self, time_ms):
        """(state, part) of a moment."""
        place = min(bisect.bisect_left(self.ends, time_ms), len(self.ends) - 1)
        return self.states[place], self.parts[place]

    def integral_at(self, times_ms, column):
        """The area under one column of the states, from 0 to each of the (rising) times."""
        ends, states, last = self.ends, self.states, len(self.ends) - 1
        index, begin, area, out = 0, 0.0, 0.0, []
        end, rate = ends[0], states[0][column]
        for time in times_ms:
            while time > end and index < last:
                area += (end - begin) * rate
                begin, index = end, index + 1
                end, rate = ends[index], states[index][column]
            out.append(area + (time - begin) * rate)
        return out


@dataclass
class Gpu:
    index: int
    kind: Kind
    power_factor: float  # chips and coolers differ: +-6 %
    lane: Lane = field(default_factory=Lane)
    throttled: list = field(default_factory=list)  # spans in ms
    power_capped: bool = False
    limit_kept: float = 1.0  # of the maker's power limit
    lost_ms: float = math.inf


@dataclass
class Process:
    pid: int
    gpus: dict  # index: bytes
    command: list
    parent_pid: int = 1
    launcher: str | None = "python"
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    cpu: float = 1.0
    state: str = "R"
    user: str = "ada"
    loader_workers: int = 4
    # they cannot keep up: none of them ever waits for an order
    workers_are_late: bool = False
    read_rate: float = 5e7  # bytes a second
    write_rate: float = 2e3  # logs
    writes: list = field(default_factory=list)  # (begin ms, end ms, bytes)
    environment: dict = field(default_factory=dict)
    libraries: tuple = ("torch",)
    from_ms: float = -math.inf  # holds its GPUs from here,
    ready_ms: float = -math.inf  # all its memory from here,
    until_ms: float = math.inf  # and nothing from here
    quiet: tuple = ()  # spans in which it uses no CPU: blocked, state D

    def alive(self, time_ms):
        return self.from_ms <= time_ms < self.until_ms

    def memory(self, index, time_ms):
        full, context = self.gpus[index], 0.45 * GIB
        if time_ms >= self.ready_ms or full < context:
            return full
        return context + (full - context) * (time_ms - self.from_ms) / (
            self.ready_ms - self.from_ms
        )

    def written(self, time_ms):
        total = self.write_rate * time_ms / 1000
        for begin, end, size in self.writes:
            total += size * min(1.0, max(0.0, (time_ms - begin) / (end - begin)))
        return total


class Scene:
    """One run: what happens (rng: the same for all variants of a seed) and the instruments that
    watch it (meter).
    """

    def __init__(self, situation, variant, seed):
        self.rng = random.Random(f"{situation} {seed}")
        self.meter = random.Random(f"{situation} {variant} {seed} meter")
        self.variant_name, self.variant = variant, VARIANTS[variant]
        self.gpus, self.processes, self.events = [], [], []
        # the recording starts here; what runs already has a past
        self.t0 = self.rng.uniform(1200, 3000)
        self.end = self.ready = self.t0
        # the signals of this variant cannot decide the pattern of this run
        self.blind = False
        self.also = ()  # patterns that are right too, then
        self.over = math.inf  # when the work ends, where that is before the recording does
        self.next_pid = self.rng.randrange(2000, 60000)
        # Hopper is what has GPM. Without process lists both are of interest.
        hopper = self.variant.gpm and (
            self.variant.processes != "none" or self.meter.random() < 0.5
        )
        self.gpm = hopper
        self.gpm_every = self.meter.choice((1, 10))  # in ticks: 10 Hz or 1 Hz
        self.kinds = (
            HOPPER if hopper else BEFORE_HOPPER + (HOPPER[:1] if self.variant.power_samples else ())
        )
        self.mixed = MIXED_HOPPER if hopper else MIXED_BEFORE
        self.kind = self.variant.kind or self.meter.choice(self.kinds)

    def add_gpus(self, count, kinds=None):
        first = len(self.gpus)
        for index in range(first, first + count):
            kind = kinds[index - first] if kinds else self.kind
            self.gpus.append(Gpu(index, kind, self.rng.uniform(0.94, 1.06)))
        return self.gpus[first:]

    def last(self, seconds, period_ms=0.0, periods=8):
        """Sets the end: so many seconds of steady work, and room for `periods` of them."""
        self.end = max(self.ready, self.t0) + max(seconds * 1000.0, periods * period_ms)

    def pid(self):
        self.next_pid += self.rng.randrange(1, 40)
        return self.next_pid

    def memory(self, share):
        return int(self.kind.memory_bytes * share)

    def spread(self, low, high):
        """Log-uniform."""
        return math.exp(self.rng.uniform(math.log(low), math.log(high)))


# ---- the recording ----

PERCENT = [json.dumps(value / 100) for value in range(101)]
TENTHS = [json.dumps(value / 1000) for value in range(1001)]


def power_curve(scene, gpu):
    """(phase ms, watts of each 20 ms from the phase on): each GPU's sampler has a phase of its
    own.
    """
    meter, kind = scene.meter, gpu.kind
    phase = meter.uniform(0, POWER_SAMPLE_MS)
    count = int((scene.end - phase) / POWER_SAMPLE_MS)
    areas = gpu.lane.integral_at([phase + i * POWER_SAMPLE_MS for i in range(count + 1)], 1)
    scale = (kind.limit_w - kind.idle_w) * gpu.power_factor / POWER_SAMPLE_MS
    true_watts = [(after - before) * scale for before, after in zip(areas, areas[1:])]
    for begin, end in gpu.throttled:  # at 60 % of the clock a GPU draws some 70 %
        for i in range(int(begin / POWER_SAMPLE_MS), min(count, int(end / POWER_SAMPLE_MS))):
            true_watts[i] *= 0.7
    follow = 1 - math.exp(-POWER_SAMPLE_MS / meter.uniform(10, 25))
    deviation = kind.limit_w * meter.uniform(0.006, 0.015)  # 4 to 10 W on an H100
    noise = [kind.idle_w + meter.gauss(0, deviation) for _ in range(499)]
    level, least, watts = true_watts[0], kind.idle_w * 0.8, []
    for i, true in enumerate(true_watts):
        level += (true - level) * follow
        watts.append(max(least, level + noise[i % 499]))
    return phase, watts


def average_power(scene, gpu, ticks, phase, watts):
    """power_mw at each tick: over 1 s, or the latest sample where the driver does not average."""
    window = 1000 if scene.variant.processes == "pids" else gpu.kind.power_window_ms
    samples = max(1, int(window / POWER_SAMPLE_MS))
    total, sums = 0.0, [0.0]
    for watt in watts:
        total += watt
        sums.append(total)
    out = []
    for tick in ticks:
        high = max(1, min(len(watts), int((tick - phase) / POWER_SAMPLE_MS)))
        low = max(0, high - samples)
        out.append(int((sums[high] - sums[low]) / (high - low) * 1000))
    return out


def busy_readings(scene, gpu, ticks):
    window = scene.variant.window_ms
    after = gpu.lane.integral_at(ticks, 0)
    before = gpu.lane.integral_at([tick - window for tick in ticks], 0)
    return [min(100, int((a - b) / window * 100 + 0.5)) for a, b in zip(after, before)]


def gpm_readings(scene, gpu, ticks):
    """The text of sm, tensor and dram at every gpm_every-th tick but the first, which has nothing
    to compare with.
    """
    times = ticks[:: scene.gpm_every]
    noise = scene.meter.uniform
    columns = []
    for column in (2, 3, 4):
        areas = gpu.lane.integral_at(times, column)
        means = ((b - a) / (t - s) for a, b, s, t in zip(areas, areas[1:], times, times[1:]))
        columns.append([TENTHS[min(1000, int(mean * noise(985, 1015) + 0.5))] for mean in means])
    return [""] + [
        f',"sm":{sm},"tensor":{tensor},"dram":{dram}' for sm, tensor, dram in zip(*columns)
    ]


class Instrument:
    """Writes one GPU's part of every tick."""

    def __init__(self, scene, gpu, ticks):
        self.scene, self.gpu, self.ticks = scene, gpu, ticks
        self.busy = busy_readings(scene, gpu, ticks)
        self.phase, self.watts = power_curve(scene, gpu)
        self.power = average_power(scene, gpu, ticks, self.phase, self.watts)
        self.gpm = gpm_readings(scene, gpu, ticks) if scene.gpm else None
        self.holders = [p for p in scene.processes if gpu.index in p.gpus]
        self.driver_bytes = scene.rng.randrange(1, 16) << 20  # nobody's: what an empty GPU shows
        self.sent = max(0, int((scene.t0 - self.phase) / POWER_SAMPLE_MS))
        self.celsius = scene.rng.uniform(30, 45)

    def reading(self, k):
        gpu, now, variant = self.gpu, self.ticks[k], self.scene.variant
        if now >= gpu.lost_ms:
            return f'{{"index":{gpu.index},"busy":null,"memory_used_bytes":null,"power_mw":null}}'
        text = f'{{"index":{gpu.index},"busy":{PERCENT[self.busy[k]]},"power_mw":{self.power[k]}'
        if k % 5 == 0:
            used = self.driver_bytes + sum(
                p.memory(gpu.index, now) for p in self.holders if p.alive(now)
            )
            text += f',"memory_used_bytes":{int(used)}'
        if variant.clocks:
            text += self.clocks(k, now)
        if self.gpm and k % self.scene.gpm_every == 0:
            text += self.gpm[k // self.scene.gpm_every]
        elif variant.power_samples and not self.gpm and k % 10 == 0:
            text += ',"sm":null,"tensor":null,"dram":null'
        return text + "}"

    def clocks(self, k, now):
        gpu, limits = self.gpu, []
        clock = gpu.kind.clock_mhz if any(p.alive(now) for p in self.holders) else 345
        if gpu.power_capped and self.busy[k] > 50:
            clock, limits = int(clock * 0.72), ["sw_power_cap"]
        if any(begin <= now < end for begin, end in gpu.throttled):
            clock, limits = int(clock * 0.6), ["hw_slowdown", "hw_thermal_slowdown"]
        if self.busy[k] == 0:
            limits = ["gpu_idle"]
        text = f',"sm_clock_mhz":{clock - 15 * (k * 7 % 3)}'
        if k % 5 == 0:
            text += f',"limits":{json.dumps(limits)}'
        if k % 10 == 0:
            # A heat sink's time constant is some 20 s.
            aim = 88 if gpu.throttled else 38 + 36 * (self.power[k] / 1000) / gpu.kind.limit_w
            self.celsius += (aim - self.celsius) * (0.5 if gpu.throttled else 0.05)
            text += f',"temperature_c":{int(self.celsius)}'
        return text

    def power_runs(self, now):
        """The samples since the last read. The driver skips 7 of 400: a run ends there and a second
        one follows.
        """
        upto = max(self.sent, min(len(self.watts), int((now - 5 - self.phase) / POWER_SAMPLE_MS)))
        runs = [(self.sent, upto)]
        if upto - self.sent > 20 and self.scene.meter.random() < 0.5:
            gap = self.scene.meter.randrange(self.sent + 2, upto - 2)
            runs = [(self.sent, gap), (gap + 1, upto)]
        self.sent = upto
        return [self.power_text(first, end) for first, end in runs if end > first]

    def power_text(self, first, end):
        begin = self.phase + (first + 1) * POWER_SAMPLE_MS - self.scene.t0
        samples = ",".join([str(int(watt * 1000)) for watt in self.watts[first:end]])
        return f'"power_samples_mw":[{samples}],"power_sample_ms":20,"power_first_ms":{begin:.1f}'


def main_thread(scene, process, state, part):
    """What it does while its GPU is in this state. Where a thread pins the batches the main one waits for
    it behind a lock, as it does for backward(); else it reads the workers' pipe."""
    if state[0]:  # launching ahead, or waiting for what it launched
        return scene.meter.choices(("run", "lock", "gpu"), (5, 3, 2))[0]
    if part == "input" and process.loader_workers:
        return "lock" if process.pid % 3 else "pipe"
    if part == "input":
        return scene.meter.choices(("run", "read_file"), (8, 2))[0]
    return {"checkpoint": "write_file", "host_code": "sleep", "unused": "socket"}.get(part, "run")


def looks_of(scene, process, since, now):
    looks, at = [], since
    lane = scene.gpus[next(iter(process.gpus))].lane
    while True:
        at += scene.meter.uniform(25, 75)
        if at >= now:
            return looks
        workers = {}
        for _ in range(process.loader_workers):
            busy = process.workers_are_late or scene.meter.random() < 0.15
            doing = ("read_file" if scene.meter.random() < 0.2 else "run") if busy else "pipe"
            workers[doing] = workers.get(doing, 0) + 1
        main = main_thread(scene, process, *lane.at(at))
        looks.append({"ago_ms": round(now - at, 1), "main": main, "workers": workers})


def process_line(scene, now):
    meter, out = scene.meter, []
    for p in scene.processes:
        if not p.alive(now):
            continue
        entry = {
            "pid": p.pid,
            "gpus": [{"index": i, "memory_bytes": int(p.memory(i, now))} for i in p.gpus],
        }
        if scene.variant.processes == "pids":
            entry["gpus"] = [{"index": i, "memory_bytes": None} for i in p.gpus]
            entry.update(command=None, rank=None, local_rank=None, world_size=None, launcher=None)
        else:
            blocked = any(begin <= now < end for begin, end in p.quiet)
            cpu = 0.05 if blocked else p.cpu * meter.uniform(0.93, 1.04)
            entry.update(
                command=p.command,
                rank=p.rank,
                local_rank=p.local_rank,
                world_size=p.world_size,
                launcher=p.launcher,
                cpu=round(cpu, 3),
                state="D" if blocked else p.state,
                user=p.user,
                parent_pid=p.parent_pid,
                loader_workers=p.loader_workers,
                read_bytes=int(3e9 + p.read_rate * now / 1000),
                write_bytes=int(2e6 + p.written(now)),
                environment=p.environment,
                libraries=list(p.libraries),
            )
            since = max(now - PROCESS_TICKS * TICK_MS, scene.t0, p.from_ms)
            if scene.variant.looks and now > since:
                entry["looks"] = looks_of(scene, p, since, now)
        out.append(entry)
    return json.dumps({"t_ms": round(now - scene.t0, 3), "processes": out}, separators=(",", ":"))


def header_line(scene):
    windows = (
        {gpu.kind.power_window_ms for gpu in scene.gpus}
        if scene.variant.processes != "pids"
        else {1000}
    )
    header = {
        "lockstep_recording": 1,
        "started_unix_ns": 1762000000000000000,
        "host": "node1",
        "driver": "580.95.05",
        "process_coverage": "none" if scene.variant.processes == "none" else "all",
        "gpus": [
            {
                "index": gpu.index,
                "uuid": f"GPU-{gpu.index:08x}",
                "name": gpu.kind.name,
                "memory_total_bytes": gpu.kind.memory_bytes,
                "power_limit_mw": int(gpu.kind.limit_w * 1000),
                "busy_window_ms": scene.variant.window_ms,
            }
            | (
                {
                    "power_limit_default_mw": int(gpu.kind.limit_w * 1000 / gpu.limit_kept),
                    "sm_clock_max_mhz": gpu.kind.clock_mhz,
                }
                if scene.variant.clocks
                else {}
            )
            for gpu in scene.gpus
        ],
    }
    if len(windows) == 1:
        header["power_window_ms"] = windows.pop()
    return json.dumps(header, separators=(",", ":"))


def recording(scene):
    """All lines of the recording of a scene, as one text."""
    meter, variant = scene.meter, scene.variant
    for gpu in scene.gpus:
        gpu.lane.until(scene.end, OFF)  # what no job claims
    count = int((scene.end - scene.t0) / TICK_MS)
    ticks = [scene.t0] + [scene.t0 + k * TICK_MS + meter.uniform(-5, 5) for k in range(1, count)]
    instruments = [Instrument(scene, gpu, ticks) for gpu in scene.gpus]
    events = sorted(scene.events) if variant.clocks else []
    lines = [header_line(scene)]
    for k, now in enumerate(ticks):
        stamp = f"{now - scene.t0:.3f}"
        while events and events[0][0] <= now:
            _, kind, gpu, detail = events.pop(0)
            lines.append(
                f'{{"t_ms":{stamp},"event":{{"kind":"{kind}","gpu":{gpu},"detail":"{detail}"}}}}'
            )
        if variant.processes != "none" and k % PROCESS_TICKS == 0:
            lines.append(process_line(scene, now))
        readings = [instrument.reading(k) for instrument in instruments]
        seconds = []
        if variant.power_samples and k % 20 == 19:
            for i, instrument in enumerate(instruments):
                if now >= instrument.gpu.lost_ms:
                    continue
                runs = instrument.power_runs(now)
                readings[i] = f"{readings[i][:-1]},{runs[0]}}}"
                seconds += [f'{{"index":{instrument.gpu.index},{run}}}' for run in runs[1:]]
        lines.append(f'{{"t_ms":{stamp},"gpus":[{",".join(readings)}]}}')
        if seconds:
            lines.append(f'{{"t_ms":{stamp},"gpus":[{",".join(seconds)}]}}')
    return "\n".join(lines) + "\n"


def lanes_text(scene, columns=100):
    """The true states as text, for looking at: a row of busy and a row of power share a GPU, over
    the first seconds.
    """
    marks = " ▁▂▃▄▅▆▇█"
    recording(scene)  # fills the lanes to the end
    step = (scene.end - scene.t0) / columns
    out = [
        f"{scene.variant_name}: {(scene.end - scene.t0) / 1000:.1f} s, {step:.0f} ms a column, ready at {(scene.ready - scene.t0) / 1000:.1f} s"
    ]
    times = [scene.t0 + i * step for i in range(columns + 1)]
    for gpu in scene.gpus:
        for word, column in (("busy ", 0), ("power", 1)):
            areas = gpu.lane.integral_at(times, column)
            means = [(b - a) / step for a, b in zip(areas, areas[1:])]
            out.append(
                f"GPU {gpu.index:<2} {word} |{''.join(marks[min(8, int(mean * 8.99))] for mean in means)}| {sum(means) / columns:.2f}"
            )
    for p in scene.processes:
        out.append(
            f"pid {p.pid} gpus {list(p.gpus)} rank {p.rank}/{p.world_size} {p.launcher} {' '.join(p.command)}"
        )
    return "\n".join(out)
