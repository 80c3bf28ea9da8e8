"""lockstep-train is right: every way to split the work gives the same losses, PyTorch agrees, and a killed run goes on.

usage: train_test.py [PART...]   with no part all are run
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LOCKSTEP = os.environ["LOCKSTEP_BINARY"]
TRAIN = os.path.join(os.path.dirname(LOCKSTEP), "lockstep-train")
TORCH = os.path.join(os.environ["LOCKSTEP_TORCH"], "bin")
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("LOCKSTEP_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))

# 20 in scripts/test --whole
WHOLE = bool(os.environ.get("LOCKSTEP_WHOLE"))
KILLS = 20 if WHOLE else 1

TINY = [
    "--device",
    "cpu",
    "--layers",
    "2",
    "--heads",
    "2",
    "--width",
    "32",
    "--sequence-length",
    "16",
    "--dataset-size",
    "512",
    "--log-every",
    "1",
    "--log-format",
    "json",
    "--workers",
    "1",
]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def train(*flags, ranks=1, launcher=None, expect=0, env=None, limit_s=120):
    line = [TRAIN, *TINY, *flags]
    if launcher is not None:
        line = launcher + line
    elif ranks > 1:
        line = [
            LOCKSTEP,
            "launch",
            "--standalone",
            "--no-checks",
            "--nproc-per-node",
            str(ranks),
            "--no-python",
        ] + line
    done = subprocess.run(line, capture_output=True, text=True, timeout=limit_s, env=env)
    assert done.returncode == expect, (
        line,
        done.returncode,
        done.stdout[-1500:],
        done.stderr[-1500:],
    )
    return done


def losses(*flags, **how):
    return {
        line["step"]: line["loss"]
        for line in lines(train(*flags, **how).stdout)
        if "done" not in line
    }


def near(name, one, other, tolerance=2e-6):
    assert one.keys() == other.keys() and one, (name, len(one), len(other))
    worst = max(abs(one[step] - other[step]) for step in one)
    print(f"  {name}: {len(one)} losses, at most {worst:.1e} apart")
    assert worst <= tolerance, (name, worst)


def every_split_is_equal(folder):
    """One process with batch 8 is the truth; floats are added in another order, so the last digit
    may differ.
    """
    truth = losses("--batch-size", "8", "--steps", "12")
    near(
        "naive on 2",
        truth,
        losses("--batch-size", "8", "--steps", "12", "--parallel", "naive", "--devices", "2"),
    )
    near(
        "naive on 3",
        truth,
        losses("--batch-size", "8", "--steps", "12", "--parallel", "naive", "--devices", "3"),
    )
    near(
        "data-parallel on 2",
        truth,
        losses(
            "--batch-size", "4", "--steps", "12", "--parallel", "data-parallel", "--devices", "2"
        ),
    )
    near("ddp of 2", truth, losses("--batch-size", "4", "--steps", "12", ranks=2))
    near("ddp of 4", truth, losses("--batch-size", "2", "--steps", "12", ranks=4))
    near(
        "ddp of 2, tiny buckets",
        truth,
        losses(
            "--batch-size",
            "4",
            "--steps",
            "12",
            "--bucket-mb",
            "0.01",
            "--first-bucket-mb",
            "0.002",
            ranks=2,
        ),
    )
    near(
        "ddp of 2, gradients beside their buckets",
        truth,
        losses("--batch-size", "4", "--steps", "12", "--no-gradient-as-bucket-view", ranks=2),
    )
    near(
        "ddp of 2, static graph",
        truth,
        losses("--batch-size", "4", "--steps", "12", "--static-graph", ranks=2),
    )
    near(
        "ddp of 2, static graph, accumulation",
        truth,
        losses(
            "--batch-size", "2", "--accumulation", "2", "--steps", "12", "--static-graph", ranks=2
        ),
    )
    near(
        "ddp of 2, find unused",
        truth,
        losses("--batch-size", "4", "--steps", "12", "--find-unused", ranks=2),
    )
    near(
        "hybrid of 4 devices",
        truth,
        losses(
            "--batch-size",
            "4",
            "--steps",
            "12",
            "--parallel",
            "hybrid",
            "--split",
            "2",
            "--devices",
            "4",
            ranks=2,
        ),
    )
    near(
        "hybrid of 3 devices",
        truth,
        losses(
            "--batch-size",
            "4",
            "--steps",
            "12",
            "--parallel",
            "hybrid",
            "--split",
            "2",
            "--devices",
            "3",
            ranks=2,
        ),
    )
    near(
        "accumulation 4 of 2",
        truth,
        losses("--batch-size", "2", "--accumulation", "4", "--steps", "12"),
    )
    near(
        "ddp of 2, accumulation 2",
        truth,
        losses("--batch-size", "2", "--accumulation", "2", "--steps", "12", ranks=2),
    )
    near(
        "blocks computed twice",
        truth,
        losses("--batch-size", "8", "--steps", "12", "--activation-checkpointing"),
    )
    near(
        "blocks computed twice, ddp",
        truth,
        losses("--batch-size", "4", "--steps", "12", "--activation-checkpointing", ranks=2),
    )
    frozen = losses("--batch-size", "8", "--steps", "12", "--freeze", "1")
    assert frozen != truth
    near(
        "frozen, ddp of 2",
        frozen,
        losses("--batch-size", "4", "--steps", "12", "--freeze", "1", ranks=2),
    )
    near(
        "frozen, naive on 2",
        frozen,
        losses(
            "--batch-size",
            "8",
            "--steps",
            "12",
            "--freeze",
            "1",
            "--parallel",
            "naive",
            "--devices",
            "2",
        ),
    )
    rows = ["--model", "mlp", "--vocabulary", "16"]
    near(
        "mlp, ddp of 2",
        losses(*rows, "--batch-size", "8", "--steps", "12"),
        losses(*rows, "--batch-size", "4", "--steps", "12", ranks=2),
    )


def half_precision_learns(folder):
    truth = losses("--batch-size", "8", "--steps", "12")
    for precision in ("bf16", "fp16"):
        near(
            precision,
            truth,
            losses("--batch-size", "8", "--steps", "12", "--precision", precision),
            0.02,
        )
        near(
            f"{precision}, ddp of 2",
            truth,
            losses("--batch-size", "4", "--steps", "12", "--precision", precision, ranks=2),
            0.02,
        )


def tails_do_not_hang(folder):
    """37 samples on 3 ranks: nobody waits for a batch that never comes, and an epoch's last update
    counts its own passes.
    """
    for flags in (
        ["--drop-last"],
        ["--no-drop-last"],
        ["--no-drop-last", "--accumulation", "4"],
        ["--drop-last", "--accumulation", "5"],
    ):
        seen = losses("--dataset-size", "37", "--epochs", "3", "--batch-size", "2", *flags, ranks=3)
        assert len(seen) >= 3, (flags, seen)
        print(f"  {' '.join(flags)}: {len(seen)} updates")


def pytorch_agrees(folder):
    python = os.path.join(TORCH, "python")
    if not os.path.exists(python):
        print("  skipped: no torch for Python in the cache folder (scripts/setup --tests)")
        return
    text = os.path.join(folder, "text.txt")
    random.seed(5)
    open(text, "w").write("".join(random.choice("lockstep and learning ") for _ in range(20_000)))
    settings = {
        "layers": 3,
        "heads": 2,
        "width": 48,
        "sequence-length": 24,
        "batch-size": 6,
        "steps": 20,
        "learning-rate": 0.002,
        "min-learning-rate": 0.0002,
        "warmup-steps": 5,
        "weight-decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.95,
        "epsilon": 1e-8,
        "clip": 1.0,
    }
    config = os.path.join(folder, "settings.json")
    json.dump(settings, open(config, "w"))
    start = os.path.join(folder, "start")
    shape = ["--layers", "3", "--heads", "2", "--width", "48", "--sequence-length", "24"]
    # A step with a learning rate of 0 leaves the weights as they were: its checkpoint holds the
    # start.
    train(
        "--data",
        text,
        "--no-shuffle",
        *shape,
        "--batch-size",
        "6",
        "--steps",
        "1",
        "--learning-rate",
        "0",
        "--min-learning-rate",
        "0",
        "--weight-decay",
        "0",
        "--checkpoint-dir",
        start,
    )
    (weights,) = os.listdir(start)
    done = subprocess.run(
        [
            python,
            os.path.join(HERE, "train_reference.py"),
            os.path.join(start, weights),
            config,
            text,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = {step + 1: loss for step, loss in enumerate(json.loads(done.stdout.splitlines()[-1]))}
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    near("PyTorch, 20 steps", theirs, losses("--data", text, "--no-shuffle", *flags), 1e-4)
    half = [
        word
        for name, value in {**settings, "batch-size": 3}.items()
        for word in (f"--{name}", str(value))
    ]
    near(
        "PyTorch, 20 steps of ddp",
        theirs,
        losses("--data", text, "--no-shuffle", *half, ranks=2),
        1e-4,
    )


def resuming_is_exact(folder):
    """A run cut in two has bit for bit the losses of one that was not: weights, moments, order, dropout, loss scale.

    Three ranks with small buckets: there the order in which Gloo adds depends on the buckets.
    """
    flags = ["--batch-size", "4", "--steps", "40", "--dataset-size", "200", "--dropout", "0.1"]
    small_buckets = ["--bucket-mb", "0.01", "--first-bucket-mb", "0.002"]
    cases = {
        "one process": (1, []),
        "3 ranks": (3, small_buckets),
    }
    more_cases = {
        "2 ranks": (2, []),
        "2 ranks in fp16": (2, ["--precision", "fp16"]),
        "hybrid of 3 devices": (2, ["--parallel", "hybrid", "--split", "2", "--devices", "3"]),
        "static graph": (2, ["--static-graph", "--accumulation", "2"]),
    }
    for name, (ranks, more) in (cases | more_cases if WHOLE else cases).items():
        saved = [
            "--checkpoint-dir",
            os.path.join(folder, name.replace(" ", "_")),
            "--save-every",
            "3",
        ]
        whole = losses(*flags, *more, ranks=ranks)
        kill_when([*flags, *more, *saved], ranks, 17)  # in the middle of an epoch
        rest = losses(*flags, *more, *saved, ranks=ranks)
        assert max(rest) == 40 and min(rest) > 1, (name, sorted(rest))
        for step, loss in rest.items():
            assert loss == whole[step], (name, step, loss, whole[step])
        print(f"  {name}: {len(rest)} losses after resuming are equal to the last bit")


def other_settings_go_on_at_the_same_place(folder):
    """With another batch or number of ranks a resumed run ends where its epochs end, and says that
    it is not the same run.
    """
    saved = ["--checkpoint-dir", os.path.join(folder, "other"), "--dataset-size", "160"]
    for first, second, ranks, updates in (
        (
            ["--batch-size", "4", "--steps", "60"],
            ["--batch-size", "8", "--epochs", "4"],
            1,
            60 + 50,
        ),
        (
            ["--batch-size", "8", "--steps", "15"],
            ["--batch-size", "5", "--epochs", "2"],
            2,
            15 + 20,
        ),
        (
            ["--batch-size", "4", "--steps", "39"],
            ["--batch-size", "48", "--epochs", "2"],
            1,
            39 + 3,
        ),
    ):
        train(*saved, *first, "--resume", "never")
        seen = losses(*saved, *second, ranks=ranks)
        assert max(seen) == updates, (first, second, ranks, max(seen), updates)
        for name in os.listdir(saved[1]):
            os.unlink(os.path.join(saved[1], name))
    print("  another batch, another number of ranks, fewer batches than were done")


def contradictions_are_refused(folder):
    for flags, words in (
        (
            ["--parallel", "hybrid", "--find-unused", "--devices", "2", "--split", "1"],
            "--find-unused",
        ),
        (["--find-unused", "--activation-checkpointing"], "--find-unused"),
        (["--save-every", "3"], "--checkpoint-dir"),
    ):
        done = train(*flags, ranks=2, expect=2)
        assert done.stderr.count("lockstep-train: error") == 1 and words in done.stderr, done.stderr
    alone = train("--parallel", "ddp", "--devices", "4", expect=2)
    assert "lockstep launch" in alone.stderr, alone.stderr
    in_the_way = os.path.join(folder, "file")
    open(in_the_way, "w").close()
    assert "--checkpoint-dir" in train("--checkpoint-dir", in_the_way, expect=2).stderr, (
        "before the first step"
    )
    print("  each with a sentence, said once")


def kill_when(flags, ranks, step):
    """Runs until the step's line, kills without warning, gives the losses seen."""
    line = [TRAIN, *TINY, *flags]
    if ranks > 1:
        line = [
            LOCKSTEP,
            "launch",
            "--standalone",
            "--no-checks",
            "--nproc-per-node",
            str(ranks),
            "--no-python",
        ] + line
    child = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    seen = []
    for text in child.stdout:
        record = json.loads(text)
        seen.append((record["step"], record["loss"]))
        if record["step"] >= step:
            break
    os.killpg(child.pid, signal.SIGKILL)
    child.stdout.close()
    child.wait()
    return seen


def kills_change_nothing(folder):
    """Killed at random moments, a run that saves at every other update ends with the loss curve
    of one left alone.
    """
    random.seed(int(os.environ.get("LOCKSTEP_TEST_SEED", "11")))
    flags = [
        "--batch-size",
        "4",
        "--steps",
        str(300 * KILLS),
        "--dataset-size",
        "300",
        "--dropout",
        "0.1",
        "--checkpoint-dir",
        os.path.join(folder, "kills"),
        "--save-every",
        "2",
        "--save-total-limit",
        "2",
    ]
    whole = losses(*flags[:-6])
    curve, kills = {}, 0
    while kills < KILLS:
        child = subprocess.Popen(
            [TRAIN, *TINY, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        time.sleep(random.uniform(0.2, 0.9))
        ended = child.poll() is not None
        child.kill()
        for record in lines(child.communicate()[0]):
            if "done" not in record:
                curve.setdefault(record["step"], set()).add(record["loss"])
        kills += 1
        if ended:
            break
    # thousands of saves, each of them synced to the disk
    for record in lines(train(*flags, limit_s=600).stdout):
        if "done" not in record:
            curve.setdefault(record["step"], set()).add(record["loss"])
    assert kills == KILLS, f"the run ended after {kills} kills: too few updates"
    assert sorted(curve) == sorted(whole), (len(curve), len(whole))
    for step, seen in curve.items():
        assert seen == {whole[step]}, (step, seen, whole[step])
    left = [
        name
        for name in os.listdir(os.path.join(folder, "kills"))
        if not name.endswith(".safetensors")
    ]
    print(
        f"  {kills} kills, {len(curve)} losses, all equal to the run left alone; {len(left)} partial files left"
    )


def restarts_resume(folder):
    """The launcher starts the ranks again, and they go on by themselves."""
    saved = os.path.join(folder, "restart")
    crash = os.path.join(folder, "crash_once.sh")
    open(crash, "w").write(
        f'#!/bin/bash\nif [ "$RANK" = 1 ] && [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then "$@" & child=$!; sleep 2.5; kill -9 $child; exit 9; fi\nexec "$@"\n'
    )
    flags = ["--batch-size", "4", "--steps", "300", "--checkpoint-dir", saved, "--save-every", "1"]
    launcher = [
        LOCKSTEP,
        "launch",
        "--standalone",
        "--no-checks",
        "--nproc-per-node",
        "2",
        "--max-restarts",
        "1",
        "--no-python",
        "bash",
        crash,
    ]
    done = train(*flags, launcher=launcher)
    steps = [record["step"] for record in lines(done.stdout) if "done" not in record]
    assert "restart 1 of 1" in done.stderr and steps[-1] == 300 and steps.count(1) == 1, (
        steps,
        done.stderr[-1500:],
    )
    print(f"  started again, {len(steps) - 300} updates done twice")


def started(*flags, ranks=1):
    line = [TRAIN, *TINY, *flags]
    if ranks > 1:
        line = [
            LOCKSTEP,
            "launch",
            "--standalone",
            "--no-checks",
            "--nproc-per-node",
            str(ranks),
            "--no-python",
        ] + line
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def told_to_end_it_saves(folder):
    """SIGTERM, as of a scheduler whose time is up: every rank saves the same update, and the next
    run goes on from there.
    """
    flags = ["--batch-size", "4", "--steps", "200"]
    for ranks in (1, 2) if WHOLE else (2,):
        saved = os.path.join(folder, f"told{ranks}")
        whole = losses(*flags, ranks=ranks)
        flags_here = [*flags, "--checkpoint-dir", saved]
        first = started(*flags_here, "--loader-delay", "20ms", ranks=ranks)
        curve = {}
        for line in first.stdout:
            if line.startswith("{") and "done" not in (record := json.loads(line)):
                curve[record["step"]] = record["loss"]
                if record["step"] == 20:
                    first.send_signal(signal.SIGTERM)
                    first.send_signal(signal.SIGTERM)  # schedulers say it more than once
        errors = first.stderr.read()
        code = first.wait(timeout=60)
        assert 20 <= max(curve) < 200 and code in (-signal.SIGTERM, 128 + signal.SIGTERM), (
            max(curve),
            code,
            errors,
        )
        assert "exchange" not in errors, errors
        assert (
            [name for name in os.listdir(saved)]
            == [name for name in os.listdir(saved) if name.endswith(".safetensors")]
            != []
        ), os.listdir(saved)
        rest = {
            record["step"]: record["loss"]
            for record in lines(train(*flags_here, ranks=ranks).stdout)
            if "done" not in record
        }
        assert min(rest) == max(curve) + 1, "an update was done twice, or left out"
        assert {**curve, **rest} == whole, "other losses than those of a run that nobody ended"
        print(
            f"  {ranks} rank(s): told to end at update 20, saved {max(curve)}, went on to 200 with the same losses"
        )

    saved = os.path.join(folder, "between")
    seldom = started(
        "--batch-size",
        "4",
        "--steps",
        "100000",
        "--loader-delay",
        "20ms",
        "--log-every",
        "100000",
        "--checkpoint-dir",
        saved,
        "--save-every",
        "15",
        ranks=2,
    )
    until = time.monotonic() + 60
    while (
        not (
            os.path.isdir(saved)
            and any(name.endswith(".safetensors") for name in os.listdir(saved))
        )
        and time.monotonic() < until
    ):
        time.sleep(0.1)
    seldom.send_signal(signal.SIGTERM)
    _, errors = seldom.communicate(timeout=60)
    assert (
        seldom.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM) and "unsaved" not in errors
    ), (seldom.returncode, errors)
    print("  where lines are far apart the ranks agree at a save")


def told_to_end_it_does_not_wait_for_ever(folder):
    """A rank that cannot meet the others any more ends without saving; one that keeps no
    checkpoints ends at once.
    """
    alone = started(
        "--batch-size", "4", "--steps", "100000", "--loader-delay", "20ms", "--log-every", "100000"
    )
    time.sleep(2)
    alone.send_signal(signal.SIGTERM)
    assert alone.wait(timeout=5) == -signal.SIGTERM

    port = str(free_port())
    flags = [
        "--batch-size",
        "4",
        "--steps",
        "100000",
        "--loader-delay",
        "20ms",
        "--checkpoint-dir",
        os.path.join(folder, "gone"),
    ]
    ranks = [
        subprocess.Popen(
            [TRAIN, *TINY, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            },
        )
        for rank in range(2)
    ]
    for line in ranks[0].stdout:
        if line.startswith("{") and json.loads(line)["step"] >= 5:
            break
    ranks[1].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    ranks[0].send_signal(signal.SIGTERM)
    code = ranks[0].wait(timeout=30)
    waited = time.monotonic() - began
    ranks[1].kill()
    ranks[1].wait()
    assert code == -signal.SIGTERM and waited > 3, (code, waited)
    print(f"  beside a rank that hangs it ended after {waited:.1f} s")


def damaged_checkpoints_are_refused(folder):
    saved = os.path.join(folder, "damaged")
    flags = [
        "--batch-size",
        "4",
        "--steps",
        "6",
        "--checkpoint-dir",
        saved,
        "--save-every",
        "2",
        "--save-total-limit",
        "0",
    ]
    train(*flags)
    newest = os.path.join(saved, sorted(os.listdir(saved))[-1])
    before = os.path.join(saved, sorted(os.listdir(saved))[-2])
    os.truncate(newest, os.path.getsize(newest) - 10)
    for ranks in (1, 2):
        done = train(*flags, ranks=ranks, expect=3)
        assert "cut short" in done.stderr and before in done.stderr, done.stderr
    train(*flags, "--resume", before)
    other = train(*flags, "--resume", before, "--layers", "3", expect=3)
    assert "another model" in other.stderr, other.stderr
    print("  a cut file and another model's are refused, the one before is offered")


def launchers_are_alike(folder):
    flags = ["--batch-size", "4", "--steps", "6"]
    truth = losses(*flags, ranks=2)
    torchrun = os.path.join(TORCH, "torchrun")
    if os.path.exists(torchrun):
        near(
            "torchrun --no-python",
            truth,
            losses(
                *flags, launcher=[torchrun, "--standalone", "--nproc-per-node=2", "--no-python"]
            ),
            0,
        )
    else:
        print("  torchrun skipped: not in the cache folder (scripts/setup --tests)")
    variables = {
        "srun": {
            "SLURM_PROCID": "{}",
            "SLURM_NTASKS": "2",
            "SLURM_LOCALID": "{}",
            "SLURM_NNODES": "1",
            "SLURM_STEP_ID": "0",
        },
        "mpirun": {
            "OMPI_COMM_WORLD_RANK": "{}",
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "{}",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        },
        "mpiexec (PMI)": {
            "PMI_RANK": "{}",
            "PMI_SIZE": "2",
            "MPI_LOCALRANKID": "{}",
            "MPI_LOCALNRANKS": "2",
        },
    }
    for name, wanted in variables.items():
        port = str(free_port())
        ranks = [
            subprocess.Popen(
                [TRAIN, *TINY, *flags],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "MASTER_PORT": port,
                    **{key: value.format(rank) for key, value in wanted.items()},
                },
            )
            for rank in range(2)
        ]
        outputs = [rank.communicate(timeout=60) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], outputs
        near(
            name + "'s variables",
            truth,
            {line["step"]: line["loss"] for line in lines(outputs[0][0]) if "done" not in line},
            0,
        )
        assert outputs[1] == ("", ""), "only rank 0 speaks"


def mpi_starts_ranks(folder):
    """Open MPI's and MPICH's own launchers: they set variables of their own, and no address."""
    flags = ["--batch-size", "4", "--steps", "6"]
    truth = losses(*flags, ranks=2)
    for name, words in (
        ("mpirun.openmpi", ["--allow-run-as-root", "--oversubscribe"]),
        ("mpiexec.hydra", []),
    ):
        if not shutil.which(name):
            print(f"  {name} skipped: not installed (scripts/setup --tests)")
            continue
        env = {**os.environ, "MASTER_PORT": str(free_port())}
        near(name, truth, losses(*flags, launcher=[name, *words, "-n", "2"], env=env), 0)
        env["MASTER_PORT"] = str(free_port())
        near(
            f"lockstep launch under {name}",
            truth,
            losses(
                *flags,
                launcher=[name, *words, "-n", "2", LOCKSTEP, "launch", "--no-python"],
                env=env,
            ),
            0,
        )


def collectives_are_right(folder):
    for ranks in (1, 2, 3):
        done = train("--selftest", "collectives", ranks=ranks)
        assert done.stdout.count(": right") == 6 and "WRONG" not in done.stdout, done.stdout
    print("  broadcast, sum, max, mean, gather, barrier with 1, 2 and 3 ranks")


def the_doctor_lets_ranks_talk(folder):
    run = subprocess.run(
        [os.environ["LOCKSTEP_BINARY"], "doctor", "virtual:2", "--ddp", "--ranks", "3", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        # a shell that is a rank of another job
        env={**os.environ, "RANK": "7", "WORLD_SIZE": "9", "MASTER_ADDR": "nowhere.invalid"},
    )
    checks = {
        check["question"]: check
        for check in json.loads(run.stdout)["checks"]
        if check["group"] == "communication"
    }
    for question in (
        "Gloo sums up right",
        "Gloo speed between ranks",
        "ranks understand each other",
        "every sample goes to one rank",
        "weights are equal after a step",
    ):
        assert checks[question]["answer"] == "yes", checks
    assert "3 ranks" in checks["weights are equal after a step"]["detail"], checks
    done = subprocess.run(
        [TRAIN, "--selftest", "nothing"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "collectives, gloo, nccl, ddp" in done.stderr, done.stderr
    print("  Gloo's speed, and DDP with three ranks")


def missing_ranks_are_named(folder):
    env = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
    }
    ranks = [
        subprocess.Popen(
            [TRAIN, *TINY, "--timeout", "2s"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in (0, 2)
    ]
    words = [rank.communicate(timeout=60)[1] for rank in ranks]
    assert "rank 1" in words[0], words
    # One that stops in the middle: the others wait for the timeout, then say who it was.
    env["WORLD_SIZE"] = env["LOCAL_WORLD_SIZE"] = "2"
    env["MASTER_PORT"] = str(free_port())
    ranks = [
        subprocess.Popen(
            [TRAIN, *TINY, "--steps", "100000", "--timeout", "3s"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    assert ranks[0].stdout.readline()
    ranks[1].send_signal(signal.SIGSTOP)
    words = ranks[0].communicate(timeout=60)[1]
    ranks[1].kill()
    ranks[1].communicate()
    assert ranks[0].returncode == 3 and "rank 1 does not answer" in words, (
        ranks[0].returncode,
        words[-1500:],
    )
    print("  a rank that never came, and one that stopped, are named")


PARTS = [
    every_split_is_equal,
    half_precision_learns,
    tails_do_not_hang,
    pytorch_agrees,
    resuming_is_exact,
    other_settings_go_on_at_the_same_place,
    contradictions_are_refused,
    kills_change_nothing,
    restarts_resume,
    told_to_end_it_saves,
    told_to_end_it_does_not_wait_for_ever,
    damaged_checkpoints_are_refused,
    launchers_are_alike,
    mpi_starts_ranks,
    collectives_are_right,
    the_doctor_lets_ranks_talk,
    missing_ranks_are_named,
]

if not os.path.exists(TRAIN):
    print("skipped: this build has no lockstep-train (no libtorch)")
    sys.exit(77)
# Each is proven at least once elsewhere, or changes seldom: for scripts/test --whole.
LONGER = {
    half_precision_learns,
    other_settings_go_on_at_the_same_place,
    told_to_end_it_does_not_wait_for_ever,
    missing_ranks_are_named,
    the_doctor_lets_ranks_talk,
    tails_do_not_hang,
}
for part in PARTS:
    if part.__name__ not in sys.argv[1:] if sys.argv[1:] else part in LONGER and not WHOLE:
        continue
    began = time.time()
    print(part.__name__.replace("_", " "))
    with tempfile.TemporaryDirectory() as folder:
        part(folder)
    print(f"  ({time.time() - began:.0f} s)", flush=True)
