"""The same small scripts under torchrun (PyPI's torch) and under lockstep launch: environments, outputs, log trees, behaviour at the
end. Where the two differ, the difference is one of docs/launch.md's list, named here by its number."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")
TORCHRUN = os.path.join(TORCH, "torchrun")

SCRIPTS = {
    "show_environment.py": """
        import json, os, sys
        own = {name: value for name, value in os.environ.items()
               if name.split("_")[0] in ("RANK", "LOCAL", "ROLE", "GROUP", "WORLD", "MASTER", "TORCHELASTIC", "TORCH", "OMP", "PET")
               or name == "CUDA_VISIBLE_DEVICES"}
        with open(os.path.join(os.environ["CASE"], "rank" + os.environ["RANK"] + ".json"), "w") as file:
            json.dump({"environment": own, "arguments": sys.argv[1:], "folder": os.getcwd(), "unbuffered": sys.stdout.write_through,
                       "own_session": os.getsid(0) == os.getpid(), "own_group": os.getpgrp() == os.getpid(),
                       "python": sys.prefix}, file)
    """,
    "speak.py": """
        import os, sys
        for line in range(3): print("line", line, "of", os.environ["RANK"])
        print("words of", os.environ["RANK"], file=sys.stderr)
    """,
    "raise.py": """
        import os, sys, time
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def main():
            if os.environ["RANK"] == "1": raise RuntimeError("boom")
            time.sleep(60)
        main()
    """,
    "end.py": """
        import os, signal, sys, time
        how = sys.argv[1]
        if os.environ["RANK"] == "1":
            if how == "7": sys.exit(7)
            if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
            if how == "early": sys.exit(0)
            if how == "deaf": time.sleep(0.5); sys.exit(3)
        if how == "early": time.sleep(1); print("the other one ends later"); sys.exit(0)
        if how == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    """,
    "all_reduce.py": """
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.ones(1); dist.all_reduce(total)
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        __import__("sys").stdout.write(f"attempt {attempt} sum {int(total.item())}\\n")
        if attempt == "0" and "fail_once" in __import__("sys").argv and dist.get_rank() == 1: os._exit(9)
        dist.barrier(); dist.destroy_process_group()
    """,
}


class Run:
    def __init__(self, launcher, folder, flags, script, variables):
        self.folder = os.path.join(folder, launcher)
        os.makedirs(os.path.join(self.folder, "tmp"))
        around = dict(
            os.environ,
            PATH=TORCH + ":" + os.environ["PATH"],
            CASE=self.folder,
            TMPDIR=os.path.join(self.folder, "tmp"),
            **variables,
        )
        line = (
            ([TORCHRUN] if launcher == "torchrun" else [LOCKSTEP, "launch", "--no-checks"])
            + flags(self.folder)
            + script
        )
        began = time.monotonic()
        end = subprocess.run(
            line, env=around, cwd=folder, capture_output=True, text=True, timeout=100
        )
        self.took = time.monotonic() - began
        self.code, self.out, self.err = end.returncode, end.stdout, end.stderr

    def ranks(self):
        names = sorted(
            name for name in os.listdir(self.folder) if re.fullmatch(r"rank\d+\.json", name)
        )
        return [json.load(open(os.path.join(self.folder, name))) for name in names]

    def log_tree(self):
        root, tree = os.path.join(self.folder, "logs"), {}
        for folder, _, files in os.walk(root):
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), root)
                tree[re.sub(r"_[a-z0-9_]{8}/attempt", "_RANDOM/attempt", path)] = open(
                    os.path.join(folder, name)
                ).read()
        return tree


pool = concurrent.futures.ThreadPoolExecutor(3)

# What the command's own tests show without torchrun beside it: for scripts/test --whole.
LONGER = {"own_gpus", "variables", "module", "filter", "template", "early"}


def both(
    work, name, flags, script, variables=None, lockstep_only=(), launchers=("torchrun", "lockstep")
):
    """Runs a case under both launchers, beside other cases; gives a function that waits for
    them. Nothing for a case that is left out today.
    """
    if name in LONGER and not os.environ.get("LOCKSTEP_WHOLE"):
        return None
    flags_of = flags if callable(flags) else lambda folder: list(flags)
    folder = os.path.join(work, name)
    os.makedirs(folder)
    for script_name, text in SCRIPTS.items():
        open(os.path.join(folder, script_name), "w").write(textwrap.dedent(text))
    own_flags = lambda where: list(lockstep_only) + flags_of(where)
    runs = [
        pool.submit(
            Run,
            launcher,
            folder,
            own_flags if launcher == "lockstep" else flags_of,
            script,
            variables or {},
        )
        for launcher in launchers
    ]
    return lambda: [run.result() for run in runs]


def comparable(rank, differing):
    environment = dict(rank["environment"])
    environment["TORCHELASTIC_ERROR_FILE"] = re.sub(
        r"^.*/([^/]*)_[a-z0-9_]{8}/attempt",
        r"\1_RANDOM/attempt",
        environment["TORCHELASTIC_ERROR_FILE"],
    )
    run_id = environment["TORCHELASTIC_RUN_ID"]
    if re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", run_id):
        environment["TORCHELASTIC_ERROR_FILE"] = environment["TORCHELASTIC_ERROR_FILE"].replace(
            run_id, "UUID"
        )
        environment["TORCHELASTIC_RUN_ID"] = "UUID"
    for name in differing:
        environment.pop(name, None)
    return dict(rank, environment=environment)


def check_environments(name, runs, differing=()):
    if runs is None:
        return
    # Differences 1 (the store) and 2 (threads) are everywhere.
    peer, own = runs()
    assert peer.code == 0 and own.code == 0, (name, peer.err, own.err)
    left_out = ("TORCHELASTIC_USE_AGENT_STORE", "OMP_NUM_THREADS") + tuple(differing)
    peers, owns = ([comparable(rank, left_out) for rank in run.ranks()] for run in (peer, own))
    assert len(owns) > 0 and peers == owns, (
        f"{name}:\n{json.dumps(peers, indent=1)}\n{json.dumps(owns, indent=1)}"
    )
    assert all(
        rank["environment"]["TORCHELASTIC_USE_AGENT_STORE"] == "False" for rank in own.ranks()
    )


def main(work):
    cases = {
        # first: torchrun waits 30 s for it, and the others run meanwhile
        "deaf": both(
            work,
            "deaf",
            ["--standalone", "--nproc-per-node=2"],
            ["end.py", "deaf"],
            lockstep_only=["--grace=1s"],
        ),
        "standalone": both(
            work,
            "standalone",
            ["--standalone", "--nproc-per-node=2"],
            ["show_environment.py", "--lr", "1", "--nnodes"],
        ),
        "static": both(
            work,
            "static",
            lambda folder: [
                "--nproc_per_node=2",
                "--master_port=" + ("29621" if folder.endswith("torchrun") else "29622"),
                "--role=worker",
                "--max-restarts=2",
            ],
            ["show_environment.py"],
        ),
        "c10d": both(
            work,
            "c10d",
            [
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=localhost:0",
                "--rdzv-id=job7",
                "--local-addr=127.0.0.1",
            ],
            ["show_environment.py"],
            {"OMP_NUM_THREADS": "3"},
        ),
        "own_gpus": both(
            work,
            "own_gpus",
            ["--standalone", "--nproc-per-node=2", "--virtual-local-rank"],
            ["show_environment.py"],
            {"CUDA_VISIBLE_DEVICES": "3,5"},
        ),
        "variables": both(
            work,
            "variables",
            [],
            ["show_environment.py"],
            {"PET_NPROC_PER_NODE": "2", "PET_STANDALONE": "1", "PET_ROLE": "pet"},
        ),
        "module": both(work, "module", ["--standalone", "-m"], ["show_environment", "x"]),
        "program": both(
            work,
            "program",
            ["--standalone", "--nproc-per-node=2", "--no-python"],
            ["echo", "-n", "hello"],
        ),
        "tee": both(
            work,
            "tee",
            lambda folder: [
                "--standalone",
                "--nproc-per-node=2",
                "--log-dir=" + folder + "/logs",
                "-t",
                "3",
                "-r",
                "0:1",
            ],
            ["speak.py"],
        ),
        "filter": both(
            work,
            "filter",
            lambda folder: [
                "--standalone",
                "--nproc-per-node=2",
                "--log-dir=" + folder + "/logs",
                "-t",
                "1",
                "--local-ranks-filter=1",
                "--duplicate-stdout-filters=line 1",
            ],
            ["speak.py"],
        ),
        "template": both(
            work,
            "template",
            ["--standalone", "-t", "1"],
            ["speak.py"],
            {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name}/$rank> "},
        ),
        "raise": both(
            work,
            "raise",
            lambda folder: ["--standalone", "--nproc-per-node=2", "--log-dir=" + folder + "/logs"],
            ["raise.py"],
        ),
        "exit": both(work, "exit", ["--standalone", "--nproc-per-node=2"], ["end.py", "7"]),
        "kill": both(work, "kill", ["--standalone", "--nproc-per-node=2"], ["end.py", "kill"]),
        "early": both(work, "early", ["--standalone", "--nproc-per-node=2"], ["end.py", "early"]),
        "reduce": both(work, "reduce", ["--standalone", "--nproc-per-node=2"], ["all_reduce.py"]),
    }
    restart = both(
        work,
        "restart",
        ["--standalone", "--nproc-per-node=2", "--max-restarts=1"],
        ["all_reduce.py", "fail_once"],
        launchers=["lockstep"],
    )

    # MASTER_PORT of a free port is anybody's; the rest is the same.
    check_environments("standalone", cases["standalone"], ["MASTER_PORT"])
    check_environments("static", cases["static"], ["MASTER_PORT"])
    assert [rank["environment"]["MASTER_PORT"] for rank in cases["static"]()[1].ranks()] == [
        "29622",
        "29622",
    ]
    check_environments("c10d", cases["c10d"], ["MASTER_PORT"])
    assert cases["c10d"]()[1].ranks()[0]["environment"].get("OMP_NUM_THREADS") == "3"
    check_environments("own_gpus", cases["own_gpus"], ["MASTER_PORT"])
    check_environments("variables", cases["variables"], ["MASTER_PORT"])
    check_environments("module", cases["module"], ["MASTER_PORT"])

    peer, own = cases["program"]()
    assert peer.out == own.out == "hellohello", (peer.out, own.out)
    for name in ("tee", "filter"):
        if cases[name] is None:
            continue
        peer, own = cases[name]()
        assert sorted(peer.out.splitlines()) == sorted(own.out.splitlines()), (
            name,
            peer.out,
            own.out,
        )
        assert [line for line in sorted(own.err.splitlines()) if "words of" in line] == [
            line for line in sorted(peer.err.splitlines()) if "words of" in line
        ], (name, own.err, peer.err)
        peer_tree, own_tree = (
            {re.sub(r"^[0-9a-f-]{36}", "UUID", path): text for path, text in run.log_tree().items()}
            for run in (peer, own)
        )
        assert peer_tree == own_tree and len(own_tree) >= 3, (name, peer_tree, own_tree)
    if cases["template"] is not None:
        peer, own = cases["template"]()
        assert peer.out == own.out and own.out.startswith("<default/0> line 0"), (peer.out, own.out)

    peer, own = cases["raise"]()
    assert peer.code == own.code == 1, (peer.code, own.code)
    errors = [
        next(
            json.loads(text)
            for path, text in run.log_tree().items()
            if path.endswith("1/error.json")
        )
        for run in (peer, own)
    ]
    assert (
        errors[0]["message"]["message"] == errors[1]["message"]["message"] == "RuntimeError: boom"
    ), errors
    assert "RuntimeError: boom" in own.err and "rank 1 failed first" in own.err, own.err

    # Difference 3: the exit code is the root cause's.
    peer, own = cases["exit"]()
    assert (peer.code, own.code) == (1, 7), (peer.code, own.code)
    peer, own = cases["kill"]()
    assert (peer.code, own.code) == (1, 137), (peer.code, own.code)
    assert "SIGKILL" in own.err
    if cases["early"] is not None:
        peer, own = cases["early"]()
        assert peer.code == own.code == 0 and "ends later" in peer.out and "ends later" in own.out
    # Both force a rank that ignores SIGTERM; torchrun's 30 s cannot be set.
    peer, own = cases["deaf"]()
    assert peer.code == 1 and own.code == 3 and peer.took > 30 and own.took < 20, (
        peer.took,
        own.took,
    )
    # Difference 4: no folder is left in the temporary folder.
    assert os.listdir(os.path.join(peer.folder, "tmp")) and not os.listdir(
        os.path.join(own.folder, "tmp")
    )

    peer, own = cases["reduce"]()
    assert peer.code == own.code == 0 and own.out.count("attempt 0 sum 2") == 2, (own.out, own.err)
    # Difference 5: restarts work.
    (again,) = restart()
    assert again.code == 0 and again.out.count("attempt 1 sum 2") == 2, (
        again.code,
        again.out,
        again.err,
    )
    print(
        f"{len([case for case in cases.values() if case])} cases alike, or different as docs/launch.md says"
    )


if __name__ == "__main__":
    if not os.path.exists(TORCHRUN):
        print(
            "skipped: torchrun is not installed in the cache's virtual environment (scripts/setup --tests)"
        )
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        main(work)
