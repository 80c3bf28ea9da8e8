"""One machine runs torchrun, the other lockstep launch: they meet, train together, and start again
together.
"""

import concurrent.futures
import os
import socket
import subprocess
import sys
import tempfile

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")

SCRIPT = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1); dist.all_reduce(total)
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
sys.stdout.write(f"rank {dist.get_rank()} attempt {attempt} sum {int(total.item())}\\n")
if sys.argv[1:] == ["fail_once"] and attempt == "0" and os.environ["LAUNCHER"] == "lockstep": os._exit(9)
dist.barrier(); dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as one:
        one.bind(("", 0))
        return one.getsockname()[1]


def meet(script, own_flags, peer_flags, arguments=(), variables=None, peer_program=None):
    def run(name, line):
        around = dict(
            os.environ, PATH=TORCH + ":" + os.environ["PATH"], LAUNCHER=name, **(variables or {})
        )
        return subprocess.run(
            line + [script, *arguments], env=around, capture_output=True, text=True, timeout=110
        )

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        own = pool.submit(run, "lockstep", [LOCKSTEP, "launch", "--no-checks"] + own_flags)
        peer = pool.submit(
            run, "torchrun", (peer_program or [os.path.join(TORCH, "torchrun")]) + peer_flags
        )
        return own.result(), peer.result()


def check(name, own, peer):
    assert own.returncode == 0 and peer.returncode == 0, (
        name,
        own.returncode,
        peer.returncode,
        own.stderr[-2000:],
        peer.stderr[-2000:],
    )
    last = {}  # of each rank: what it said last
    for line in (own.stdout + peer.stdout).splitlines():
        last[line.split()[1]] = line.split(" ", 4)[-1]
    assert last == {str(rank): "sum 3" for rank in range(3)}, (name, last)


def main(folder):
    script = os.path.join(folder, "all_reduce.py")
    open(script, "w").write(SCRIPT)
    c10d = [
        "--nnodes=2",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=localhost:{free_port()}",
        "--rdzv-id=mixed",
    ]
    check("c10d", *meet(script, c10d + ["--nproc-per-node=2"], c10d + ["--nproc-per-node=1"]))

    # Restarts need torch's store apart from the rendezvous's on every machine (pytorch#135712).
    c10d = [
        "--nnodes=2",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=localhost:{free_port()}",
        "--rdzv-id=again",
        "--max-restarts=1",
    ]
    own, peer = meet(
        script,
        c10d + ["--nproc-per-node=2"],
        c10d + ["--nproc-per-node=1"],
        ["fail_once"],
        {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
    )
    check("restart", own, peer)
    # torchrun may see a failed rank of its own or machines that came again; it counts only the
    # first.
    assert own.stdout.count("attempt 1 ") == 2 and len(peer.stdout.splitlines()) == 2, (
        own.stdout,
        peer.stdout,
    )

    if not os.environ.get("LOCKSTEP_WHOLE"):
        return

    # Among lockstep machines each attempt has a fresh store, with nothing set.
    c10d = [
        "--nnodes=2",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=localhost:{free_port()}",
        "--rdzv-id=own",
        "--max-restarts=1",
    ]
    check(
        "both lockstep",
        *meet(
            script,
            c10d + ["--nproc-per-node=2"],
            c10d + ["--nproc-per-node=1"],
            ["fail_once"],
            peer_program=[LOCKSTEP, "launch", "--no-checks"],
        ),
    )

    static = ["--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    check(
        "static",
        *meet(
            script,
            static + ["--nproc-per-node=2", "--node-rank=0", "--with-torchrun"],
            static + ["--nproc-per-node=1", "--node-rank=1"],
        ),
    )
    print("lockstep launch and torchrun met, and started again together")


if __name__ == "__main__":
    if not os.path.exists(os.path.join(TORCH, "torchrun")):
        print(
            "skipped: torchrun is not installed in the cache's virtual environment (scripts/setup --tests)"
        )
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        main(work)
