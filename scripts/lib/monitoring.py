"""The live screen against nvtop's and nvitop's: CPU, memory, bytes to the terminal, and how late a
sample is seen.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from terminals import InTerminal, cpu_seconds, resident_mib

WARM_UP_S = 4.0
MEASURED_S = 10.0
HOUR_S = 3600
# a thread of the virtual driver, 50 Hz; a real one samples power by itself, and the others do not
# ask for it
SAMPLER = "vnvml-sampler"


@dataclass
class Tools:
    lockstep: str
    library: str
    draw_screens: str
    nvtop: str | None
    nvitop: str
    folder: str


def environment(tools, gpus, scope):
    home = tempfile.mkdtemp(prefix="lockstep-bench-")  # nobody's settings but the programs' own
    return dict(
        os.environ,
        LOCKSTEP_VIRTUAL=str(gpus),
        LD_LIBRARY_PATH=tools.library,
        LOCKSTEP_VIRTUAL_SCOPE=scope,
        TERM="xterm-256color",
        LANG="C.UTF-8",
        LC_ALL="C.UTF-8",
        XDG_CONFIG_HOME=home,
        PYTHONDONTWRITEBYTECODE="1",
    )


def steady_cost(command, env):
    """(CPU ms a second, resident MiB, bytes to the terminal a second, CPU of the virtual driver's
    sampler) over some seconds of steady running.
    """
    program = InTerminal(command, env)
    try:
        program.run_for(WARM_UP_S)
        before, sampler, written, begin = (
            cpu_seconds(program.pid),
            cpu_seconds(program.pid, SAMPLER),
            len(program.output),
            time.monotonic(),
        )
        program.run_for(MEASURED_S)
        seconds = time.monotonic() - begin
        return (
            (cpu_seconds(program.pid) - before) / seconds * 1e3,
            resident_mib(program.pid),
            (len(program.output) - written) / seconds,
            (cpu_seconds(program.pid, SAMPLER) - sampler) / seconds * 1e3,
        )
    finally:
        program.stop()


def bench_cost(tools, gpus, rounds):
    scope = f"bench-{os.getpid()}"
    env = environment(tools, gpus, scope)
    programs = {
        "lockstep monitor, 10 Hz": [
            tools.lockstep,
            "monitor",
            "--interval",
            "100ms",
            f"virtual:{gpus}",
        ]
    }
    if tools.nvtop:
        programs["nvtop, 10 Hz"] = [tools.nvtop, "-d", "1"]
    programs["nvitop, 4 Hz (its fastest)"] = [tools.nvitop, "--interval", "0.25"]
    costs = {name: [] for name in programs}
    load = subprocess.Popen([os.path.join(tools.folder, "scripts/lib/flicker"), str(gpus)], env=env)
    try:
        time.sleep(1)
        for _ in range(rounds):
            for name, command in programs.items():
                costs[name].append(steady_cost(command, env))
                print(
                    "    {}: {:.1f} ms/s, {:.1f} MiB, {:.0f} bytes/s, sampler {:.1f}".format(
                        name, *costs[name][-1]
                    ),
                    file=sys.stderr,
                )
    finally:
        load.kill()
        load.wait()
    medians = {
        name: [statistics.median(column) for column in zip(*rows)] for name, rows in costs.items()
    }
    ours = medians["lockstep monitor, 10 Hz"]
    print(f"\nthe live screen, {gpus} virtual GPUs, 200x60 (medians of {rounds})")
    print(f"  {'':30} {'CPU ms/s':>10} {'MiB':>8} {'bytes/s':>9}")
    for name, values in medians.items():
        print(
            f"  {name:30} {values[0]:10.1f} {values[1]:8.1f} {values[2]:9.0f}   {values[0] / ours[0]:6.1f}x CPU, {values[1] / ours[1]:5.1f}x memory, {values[2] / max(ours[2], 1):5.1f}x bytes"
        )
    print(f"  {'of it the virtual power sampler':30} {ours[3]:10.1f}")
    if tools.nvtop:
        goal("CPU under nvtop's at the same rate", ours[0] < medians["nvtop, 10 Hz"][0])
        goal(
            "the same without the virtual driver's sampler",
            ours[0] - ours[3] < medians["nvtop, 10 Hz"][0],
        )
    goal("CPU under a tenth of nvitop's", ours[0] < medians["nvitop, 4 Hz (its fastest)"][0] / 10)


def goal(words, met):
    print(f"  goal {'met' if met else 'MISSED'}: {words}")


def shown(tools, output):
    """The first row of the terminal after this output: only what changes is written, so the bytes
    alone do not tell.
    """
    peers = os.path.dirname(os.path.dirname(tools.nvitop))
    sys.path += [
        os.path.join(peers, "lib", name, "site-packages")
        for name in os.listdir(os.path.join(peers, "lib"))
    ]
    import pyte

    screen = pyte.Screen(200, 60)
    pyte.ByteStream(screen).feed(output)
    return screen.display[0]


def bench_hour(tools):
    """Memory after an hour of 8 GPUs at 10 Hz was played, and the time to get there."""
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        path = os.path.join(folder, "hour.jsonl")
        gpus = [
            {
                "index": i,
                "name": "NVIDIA H200",
                "memory_total_bytes": 150 << 30,
                "power_limit_mw": 700000,
                "busy_window_ms": 200,
            }
            for i in range(8)
        ]
        with open(path, "w") as file:
            file.write(
                json.dumps({"lockstep_recording": 1, "started_unix_ns": 0, "gpus": gpus}) + "\n"
            )
            for tick in range(HOUR_S * 10):
                values = [
                    {
                        "index": i,
                        "busy": (tick * 7 + i) % 101 / 100,
                        "power_mw": 100000 + (tick * 977 + i * 13) % 600000,
                        "sm_clock_mhz": 1980,
                        "memory_used_bytes": 80 << 30,
                    }
                    for i in range(8)
                ]
                file.write(
                    json.dumps({"t_ms": tick * 100.0, "gpus": values}, separators=(",", ":")) + "\n"
                )
        program = InTerminal([tools.lockstep, "monitor", path], environment(tools, 8, "hour"))
        try:
            program.run_for(2)
            begin = time.monotonic()
            program.send("t59:00\r")
            while "replay 59:0" not in shown(
                tools, program.output
            ):  # until then it says that it is seeking
                program.run_for(0.1)
                if time.monotonic() - begin > 120:
                    raise SystemExit("bench: error: the hour was not played within two minutes")
            took = time.monotonic() - begin
            program.run_for(1)
            mebibytes = resident_mib(program.pid)
        finally:
            program.stop()
    print(
        f"\nan hour of 8 GPUs at 10 Hz played: {mebibytes:.1f} MiB resident, reached in {took:.1f} s"
    )
    goal("under 30 MB after an hour's worth of history", mebibytes * 1.048576 < 30)


def bench_latency(tools, gpus=16):
    """From a tick's reading, by the recording that the monitor itself makes, to the first bytes of
    the frame that shows it.
    """
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        env = environment(tools, gpus, f"bench-{os.getpid()}")
        load = subprocess.Popen(
            [os.path.join(tools.folder, "scripts/lib/flicker"), str(gpus)], env=env
        )
        here = os.getcwd()
        os.chdir(folder)
        try:
            program = InTerminal([tools.lockstep, "monitor", f"virtual:{gpus}"], env)
            offset = time.time() - time.monotonic()
            program.run_for(2)
            program.send("r")
            program.run_for(12)
            program.send("r")
            program.run_for(1)
            program.stop()
            recording = next(name for name in os.listdir(folder) if name.startswith("lockstep-"))
            subprocess.run(
                [tools.lockstep, "record", "--quiet", recording, "-o", "plain.jsonl"], check=True
            )
            with open("plain.jsonl") as file:
                header = json.loads(file.readline())
                records = [json.loads(line) for line in file]
        finally:
            os.chdir(here)
            load.kill()
            load.wait()
    start = header["started_unix_ns"] / 1e9
    ticks = [
        start + record["t_ms"] / 1e3
        for record in records
        if "gpus" in record and len(record["gpus"]) == gpus
    ]
    arrivals = [when + offset for when, _ in program.arrivals]
    delays = []
    for tick in ticks:
        later = [when for when in arrivals if when >= tick]
        if later:
            delays.append((later[0] - tick) * 1e3)
    delays.sort()
    print(
        f"\nfrom sample to screen, {gpus} virtual GPUs: median {statistics.median(delays):.1f} ms, 95 % under {delays[int(len(delays) * 0.95)]:.1f} ms ({len(delays)} of {len(ticks)} ticks)"
    )
    goal("under 50 ms", delays[int(len(delays) * 0.95)] < 50)


def bench_frames(tools):
    done = subprocess.run([tools.draw_screens], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    print(
        "\nframes of 200x60, 16 GPUs, 256 processes each, drawn and compared with the one before: "
        f"median {result['median_ms']:.2f} ms, 95 % under {result['p95_ms']:.2f} ms; {result['bytes_a_frame']:.0f} bytes a frame, {result['bytes_whole']:.0f} if each were written whole"
    )
    goal("a frame under 5 ms", result["p95_ms"] < 5)


def bench_monitor(tools, rounds):
    for gpus in (8, 16):
        bench_cost(tools, gpus, rounds)
    bench_hour(tools)
    bench_latency(tools)
    bench_frames(tools)
    if not tools.nvtop:
        print("  nvtop: not there; scripts/setup --tests builds it")
