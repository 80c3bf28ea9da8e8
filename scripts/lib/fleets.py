"""What `lockstep export` costs beside nvitop-exporter, and how long a fleet of 1,000 GPUs takes to
diagnose.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

from terminals import cpu_seconds

GPUS = 8
SAMPLER = "vnvml-sampler"
SECONDS = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scraped(command, environment, port):
    """Percent of a core, and of that the virtual driver's sampler, while it is scraped once a
    second.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(3)
        before, sampler, begun = (
            cpu_seconds(process.pid),
            cpu_seconds(process.pid, SAMPLER),
            time.monotonic(),
        )
        for _ in range(SECONDS):
            time.sleep(1)
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
        percent = 100 / (time.monotonic() - begun)
        return percent * (cpu_seconds(process.pid) - before), percent * (
            cpu_seconds(process.pid, SAMPLER) - sampler
        )
    finally:
        process.terminate()
        process.wait()


def bench_fleet(root, lockstep, library, peers, rounds):
    own, sampler, theirs = [], [], []
    nvitop = os.path.join(peers, "nvitop-exporter")
    for _ in range(rounds):
        port = free_port()
        spent, of_driver = scraped(
            [lockstep, "export", f"virtual:{GPUS}", "--listen", f"127.0.0.1:{port}", "--quiet"],
            {},
            port,
        )
        sampler.append(of_driver)
        own.append(spent - of_driver)
        if os.path.exists(nvitop):
            port = free_port()
            theirs.append(
                scraped(
                    [
                        nvitop,
                        "--bind-address",
                        "127.0.0.1",
                        "--port",
                        str(port),
                        "--hostname",
                        "here",
                        "--interval",
                        "1",
                    ],
                    {"LOCKSTEP_VIRTUAL": str(GPUS), "LD_LIBRARY_PATH": library},
                    port,
                )[0]
            )
    print(
        f"exporting {GPUS} virtual GPUs, scraped every second, {SECONDS} s, median of {rounds}: percent of a core"
    )
    print(
        f"  lockstep export (reads at 2 Hz)    {statistics.median(own):6.2f}   and the virtual driver's power sampler {statistics.median(sampler):.2f}"
    )
    if theirs:
        print(
            f"  nvitop-exporter (reads at 1 Hz)    {statistics.median(theirs):6.2f}   {statistics.median(theirs) / statistics.median(own):.1f}x of lockstep's"
        )

    sys.path.insert(0, os.path.join(root, "tests/support"))
    from fake_prometheus import FakePrometheus, dcgm_fleet

    times = []
    with FakePrometheus(dcgm_fleet("late host", hosts=125, gpus=8, minutes=60, step=15)) as server:
        for _ in range(rounds):
            begun = time.monotonic()
            subprocess.run(
                [lockstep, "diagnose", server.url, "--window", "1h", "--quiet"],
                stdout=subprocess.DEVNULL,
                check=False,
            )
            times.append(time.monotonic() - begun)
    print(
        f"diagnosing 1,000 GPUs of 125 hosts, an hour at 15 s, one job: {statistics.median(times):.2f} s, a Python server's answers among them"
    )
