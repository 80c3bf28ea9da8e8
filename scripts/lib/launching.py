"""lockstep launch against torchrun, and what is left when one of its processes is killed."""

import os
import signal
import statistics
import subprocess
import tempfile
import time

NO_OP = "/bin/true"


def one_start(command, environment):
    """(wall seconds, CPU seconds, largest process in MiB) of a launcher that starts ranks which do
    nothing.
    """
    pid = os.fork()
    if pid == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.execvpe(command[0], command, environment)
    began = time.monotonic()
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, (command, status)
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def bench_launch(lockstep, torchrun, rounds):
    """No-op jobs of 2 ranks, interleaved, and 64 ranks of lockstep alone."""
    flags = ["--standalone", "--nproc-per-node=2", "--no-python", NO_OP]
    launchers = {"lockstep launch": [lockstep, "launch"] + flags, "torchrun": [torchrun] + flags}
    seen = {name: [] for name in launchers}
    around = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    for launcher in launchers.values():
        one_start(launcher, around)  # the disk's cache is warm for both
    for _ in range(max(3, rounds)):
        for name, command in launchers.items():
            seen[name].append(one_start(command, around))
    medians = {
        name: [statistics.median(column) for column in zip(*values)]
        for name, values in seen.items()
    }
    print("\n2 ranks that do nothing (medians)")
    for name, (wall, cpu, memory) in medians.items():
        print(
            f"  {name:16} {wall * 1e3:9.1f} ms wall {cpu * 1e3:9.1f} ms CPU {memory:8.1f} MiB largest process"
        )
    own, peer = medians["lockstep launch"], medians["torchrun"]
    print(
        f"  torchrun takes {peer[0] / own[0]:.0f} x the wall time (goal 50), {peer[1] / own[1]:.0f} x the CPU, {peer[2] / own[2]:.0f} x the memory (goal 20);"
        " lockstep's launcher and guard share most of theirs"
    )
    many = [
        one_start(
            [
                lockstep,
                "launch",
                "--standalone",
                "--nproc-per-node=64",
                "--no-checks",
                "--no-python",
                NO_OP,
            ],
            around,
        )[0]
        for _ in range(max(5, rounds))
    ]
    print(
        f"  64 ranks on this machine, start to end: {statistics.median(many) * 1e3:.0f} ms (goal: started within 300)"
    )


# ---- reliability ----

FAMILY = """#!/bin/sh
# A rank with a worker that has two children, and a child in a session of its own. None of them heeds SIGTERM.
trap '' TERM
sh -c 'trap "" TERM; sleep 600 & sleep 600 & wait' &
setsid sh -c 'trap "" TERM; sleep 600 & wait' &
sleep 600 & wait
"""
OF_EACH_RANK = 7
RANKS = 2


def stat_of(pid):
    try:
        text = open(f"/proc/{pid}/stat").read()
    except OSError:
        return None, None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[1])


def marked(mark):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            environment = open(f"/proc/{name}/environ", "rb").read()
        except OSError:
            continue
        if mark.encode() in environment.split(b"\0") and stat_of(name)[0] not in (None, "Z"):
            found.append(int(name))
    return found


def children(parent):
    return [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and stat_of(name)[1] == parent and stat_of(name)[0] != "Z"
    ]


def victim(who, launcher):
    guard = children(launcher)[0]
    rank = children(guard)[0]
    worker = next((child for child in children(rank) if len(children(child)) == 2), None)
    return {"launcher": launcher, "guard": guard, "rank": rank, "worker's parent": worker}[who]


def bench_reliability(lockstep, times):
    """Kills each process of the family with SIGKILL, again and again, and counts what is left."""
    print(
        f"\n{RANKS} ranks, each with {OF_EACH_RANK - 1} descendants that ignore SIGTERM; killed with SIGKILL {times} times each"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "family.sh")
        open(script, "w").write(FAMILY)
        os.chmod(script, 0o755)
        scratch = os.path.join(folder, "tmp")
        os.mkdir(scratch)
        for who in ("launcher", "guard", "rank", "worker's parent"):
            left, took = 0, []
            for number in range(times):
                mark = f"LOCKSTEP_BENCH={os.getpid()}-{who.replace(' ', '_')}-{number}"
                name, value = mark.split("=")
                job = subprocess.Popen(
                    [
                        lockstep,
                        "launch",
                        "--standalone",
                        f"--nproc-per-node={RANKS}",
                        "--grace=100ms",
                        "--quiet",
                        "--no-python",
                        script,
                    ],
                    env=dict(os.environ, TMPDIR=scratch, **{name: value}),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                while len(marked(mark)) < 2 + RANKS * OF_EACH_RANK:
                    time.sleep(0.005)
                os.kill(victim(who, job.pid), signal.SIGKILL)
                if who == "worker's parent":
                    job.send_signal(signal.SIGTERM)
                began = time.monotonic()
                job.wait()
                while marked(mark) and time.monotonic() - began < 20:
                    time.sleep(0.005)
                survivors = marked(mark)
                left += len(survivors)
                took.append(time.monotonic() - began)
                for pid in survivors:
                    os.kill(pid, signal.SIGKILL)
            print(
                f"  {who:16} killed {times} times: {left} processes left, {len(os.listdir(scratch))} files left;"
                f" all gone after {statistics.median(took) * 1e3:.0f} ms (median), {max(took) * 1e3:.0f} ms at most"
            )
